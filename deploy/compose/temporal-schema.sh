#!/bin/sh
# Brings both databases of Temporal to the schema of this version. The tool skips what is done already.
set -eu
for pair in temporal:temporal temporal_visibility:visibility; do
  db=${pair%%:*} schema=${pair##*:}
  temporal-sql-tool --plugin postgres12 --ep postgres -p 5432 -u temporal --db "$db" setup-schema -v 0.0
  temporal-sql-tool --plugin postgres12 --ep postgres -p 5432 -u temporal --db "$db" update-schema \
    -d "/etc/temporal/schema/postgresql/v12/$schema/versioned"
done
