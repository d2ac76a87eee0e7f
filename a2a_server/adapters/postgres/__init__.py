"""The store for one server or several on a PostgreSQL database (spec: DURA-01, SCAL-01, SCAL-04, SCAL-08).

1. `schema` migrates the tables, and says in which slot a scope is. All statements stand in the `.sql` files.
2. `database` has the connections. It runs again what failed for a reason that passes, and knows when nobody answers.
3. `sessions` has what several servers need to share the database, and `wakeups` what they tell each other.
4. `store` has the methods of the port. `groups` gathers writes; `writes` makes a group the columns of one statement.
5. `tasks`, `lists`, `push`, `sweeping`, `api_keys` and `rates` read and change the rows.
6. `administration`, `kept_admin`, `database_admin` and `rekeying` are for the command line, beside running servers.
   `copying` is for stores that no server uses.
7. `shards` is the store on several databases, and `shard_map` knows which has which slot. `sharded_admin` is for the
   command line; `moving` moves slots, and `journey` has the steps of that.
"""

from a2a_server.adapters.postgres.administration import PostgresKeyAdmin as PostgresKeyAdmin
from a2a_server.adapters.postgres.administration import PostgresPushAdmin as PostgresPushAdmin
from a2a_server.adapters.postgres.copying import copied_from as copied_from
from a2a_server.adapters.postgres.copying import copied_to as copied_to
from a2a_server.adapters.postgres.database import DatabaseOptions as DatabaseOptions
from a2a_server.adapters.postgres.database_admin import PostgresDatabaseAdmin as PostgresDatabaseAdmin
from a2a_server.adapters.postgres.kept_admin import PostgresKeptAdmin as PostgresKeptAdmin
from a2a_server.adapters.postgres.moving import PostgresShardAdmin as PostgresShardAdmin
from a2a_server.adapters.postgres.rekeying import PostgresSealingAdmin as PostgresSealingAdmin
from a2a_server.adapters.postgres.sessions import DatabaseClock as DatabaseClock
from a2a_server.adapters.postgres.shard_map import ShardOptions as ShardOptions
from a2a_server.adapters.postgres.sharded_admin import ShardedKeptAdmin as ShardedKeptAdmin
from a2a_server.adapters.postgres.sharded_admin import ShardedPushAdmin as ShardedPushAdmin
from a2a_server.adapters.postgres.shards import ShardedStore as ShardedStore
from a2a_server.adapters.postgres.store import PostgresStore as PostgresStore
from a2a_server.adapters.postgres.wakeups import PostgresWakeups as PostgresWakeups
