#!/bin/sh
# Makes the namespace of Sluice unless it exists. Histories are kept for 30 days; rollouts stay in Sluice's own tables for ever.
set -eu
temporal operator namespace describe --namespace sluice ||
  temporal operator namespace create --namespace sluice --retention 30d --description "Rollouts and schedules of Sluice"
