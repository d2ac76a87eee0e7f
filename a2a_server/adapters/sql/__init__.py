"""What the stores on SQL databases share: `statements` reads the `.sql` files of each (spec: DURA-09)."""
