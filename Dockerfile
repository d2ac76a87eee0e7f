# One image for the server and the gateway; docs/deploy.md shows how it is built and run.

# A Debian with Python 3.11 or newer as `python3`, and pip. constraints.txt is tested with 3.11. A digest makes sure that
# it is always the same: NAME@sha256:…; docs/deploy.md says how to find it.
ARG BASE=python:3.11-slim-bookworm
# The same with a C compiler and Python's headers. Only what is built here gets into the image.
ARG BUILDER=python:3.11-bookworm

FROM ${BUILDER} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore

WORKDIR /src
RUN python3 -m venv --without-pip /opt/a2a

# Dependencies come first, because they change less often than the code. Only wheels are installed, and only those whose
# hashes are known. To use a package mirror, pass pip's configuration with `--secret id=pip,src=pip.conf`; it does not get
# into the image. What builds has a place of its own, which does not get into the image either.
COPY requirements.txt requirements-build.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    python3 -m pip --python /opt/a2a/bin/python install --no-compile --only-binary=:all: --no-deps \
        --require-hashes --requirement requirements.txt \
    && python3 -m venv --without-pip /opt/build \
    && python3 -m pip --python /opt/build/bin/python install --no-compile --only-binary=:all: --no-deps \
        --require-hashes --requirement requirements.txt --requirement requirements-build.txt

COPY pyproject.toml LICENSE README.md ./
COPY a2a_server a2a_server
COPY gateway gateway
COPY generated generated
RUN python3 -m pip --python /opt/build/bin/python wheel --no-index --no-deps --no-build-isolation --wheel-dir /tmp/own . \
    && python3 -m pip --python /opt/a2a/bin/python install --no-compile --no-index --no-deps /tmp/own/*.whl

# Modules on the hot path are compiled. With COMPILED= they stay Python: slower, but no compiler is needed.
ARG COMPILED=1
COPY deploy/compile.py deploy/sbom.py deploy/
RUN if [ -n "${COMPILED}" ]; then \
        /opt/build/bin/python deploy/compile.py \
            "$(/opt/a2a/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"; \
    fi \
    && /opt/a2a/bin/python deploy/sbom.py /opt/a2a/sbom.cdx.json

# Bytecode has hashes instead of times, and a fixed seed, so that the same sources make the same bytes.
RUN PYTHONHASHSEED=0 python3 -m compileall -q -f --invalidation-mode unchecked-hash /opt/a2a/lib


FROM ${BASE}

# Python's own images come without bytecode, and a read-only container would compile every module at each start.
RUN PYTHONHASHSEED=0 python3 -m compileall -q --invalidation-mode unchecked-hash \
    -x '/(ensurepip|idlelib|lib2to3|site-packages|test|tests|turtledemo)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && groupadd --gid 10001 a2a \
    && useradd --uid 10001 --gid a2a --no-create-home --no-log-init --home-dir /var/lib/a2a --shell /usr/sbin/nologin a2a \
    && install --directory --owner=a2a --group=a2a --mode=0700 /var/lib/a2a \
    && install --directory /app

COPY --from=build /opt/a2a /opt/a2a

# No bytecode is written at run time: only the volume is writable. PYTHONFAULTHANDLER shows where native code crashed.
ENV PATH=/opt/a2a/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONFAULTHANDLER=1 \
    PYTHONUNBUFFERED=1 \
    A2A_STORE=sqlite:////var/lib/a2a/a2a.db \
    A2A_LOG__FORMAT=json

# Numbers, so that an orchestrator can see that the user is not root.
USER 10001:10001
# Agents and a2ad.toml are looked for here.
WORKDIR /app
EXPOSE 50051 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["a2ad", "health"]
ENTRYPOINT ["a2ad"]
CMD ["serve"]

# Labels come last, because they change with every commit.
ARG BASE
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="a2ad" \
      org.opencontainers.image.description="Serves A2A agents over gRPC, REST, JSON-RPC and SSE" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
