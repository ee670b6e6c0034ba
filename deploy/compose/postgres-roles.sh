#!/bin/sh
# Runs once, when the data directory is empty: one role and its databases for Sluice, one for Temporal. Neither is a superuser.
set -eu
psql --username "$POSTGRES_USER" --dbname postgres --set ON_ERROR_STOP=1 \
  --set sluice="$SLUICE_ROLE_PASSWORD" --set temporal="$TEMPORAL_ROLE_PASSWORD" <<'SQL'
CREATE ROLE sluice LOGIN PASSWORD :'sluice';
CREATE DATABASE sluice OWNER sluice;
CREATE ROLE temporal LOGIN PASSWORD :'temporal';
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;
REVOKE CONNECT ON DATABASE sluice, temporal, temporal_visibility FROM PUBLIC;
SQL
