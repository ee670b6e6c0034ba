package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisStore keeps the state in Redis. Every decision is one script, so replicas never interleave. All keys of a tenant carry its
// id as hash tag and lie on one cluster node. Instants come from the replicas' clocks, which must agree to within a few
// milliseconds, as any cluster's do.
type redisStore struct {
	client redis.UniversalClient
	lease  int64
}

// NewRedis returns a limiter whose limits hold over all processes that use the same Redis. The client is the caller's to close.
func NewRedis(cfg Config, client redis.UniversalClient, log *slog.Logger) (*Limiter, error) {
	lease := cfg.Lease
	if lease == 0 {
		lease = 15 * time.Minute
	}
	return build(cfg, &redisStore{client: client, lease: lease.Microseconds()}, log)
}

// takeScript charges all keys or none. ARGV: now, ticket, lease, window, then per key the slots and the cost, one of them zero.
// Slots are a sorted set of tickets by the instant their lease ends. Lua's numbers are doubles, exact for these magnitudes;
// they are formatted by hand since the default notation would round.
//
//nolint:gochecknoglobals // a constant script
var takeScript = redis.NewScript(`
local now, ticket, lease, window = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local refused, wait, levels, at = -1, 0, {}, {}
for i, key in ipairs(KEYS) do
  local slots, cost = tonumber(ARGV[3 + 2*i]), tonumber(ARGV[4 + 2*i])
  if slots > 0 then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
    levels[i] = redis.call('ZCARD', key)
    if levels[i] >= slots and refused < 0 then refused = i - 1 end
  else
    at[i] = math.max(tonumber(redis.call('GET', key) or '0'), now)
    levels[i] = at[i] - now
    local over = levels[i] + cost - window
    if over > 0 and refused < 0 then refused = i - 1; wait = over end
  end
end
if refused < 0 then
  for i, key in ipairs(KEYS) do
    local slots, cost = tonumber(ARGV[3 + 2*i]), tonumber(ARGV[4 + 2*i])
    if slots > 0 then
      redis.call('ZADD', key, string.format('%.0f', now + lease), ticket)
      redis.call('PEXPIRE', key, string.format('%.0f', lease / 1000 + 1000))
      levels[i] = levels[i] + 1
    elseif cost > 0 then
      levels[i] = levels[i] + cost
      redis.call('SET', key, string.format('%.0f', now + levels[i]), 'PX', string.format('%.0f', math.floor(levels[i] / 1000) + 1000))
    end
  end
end
local out = {refused, string.format('%.0f', wait)}
for i = 1, #KEYS do out[2 + i] = string.format('%.0f', levels[i]) end
return out
`)

// settleScript adds a delta to every rate and removes the ticket from every set of slots. ARGV: now, ticket, then per key the
// slots and the delta.
//
//nolint:gochecknoglobals // a constant script
var settleScript = redis.NewScript(`
local now, ticket = tonumber(ARGV[1]), ARGV[2]
for i, key in ipairs(KEYS) do
  local slots, delta = tonumber(ARGV[1 + 2*i]), tonumber(ARGV[2 + 2*i])
  if slots > 0 then
    redis.call('ZREM', key, ticket)
  elseif delta ~= 0 then
    local at = math.max(tonumber(redis.call('GET', key) or '0'), now) + delta
    if at > now then
      redis.call('SET', key, string.format('%.0f', at), 'PX', string.format('%.0f', math.floor((at - now) / 1000) + 1000))
    else
      redis.call('DEL', key)
    end
  end
end
return 1
`)

func keys(tenant string, charges []charge) []string {
	out := make([]string, len(charges))
	for i, c := range charges {
		out[i] = "sluice:limit:{" + tenant + "}:" + c.key
	}
	return out
}

func (s *redisStore) take(ctx context.Context, tenant, ticket string, now int64, charges []charge) (decision, error) {
	args := []any{now, ticket, s.lease, window}
	for _, c := range charges {
		args = append(args, c.slots, c.cost)
	}
	out, err := takeScript.Run(ctx, s.client, keys(tenant, charges), args...).Slice()
	if err != nil {
		return decision{}, fmt.Errorf("take limits: %w", err)
	}
	d := decision{levels: make([]int64, len(charges))}
	into := []*int64{new(int64), &d.wait}
	for i := range d.levels {
		into = append(into, &d.levels[i])
	}
	if len(out) != len(into) {
		return decision{}, errors.New("take limits: unexpected answer")
	}
	for i, v := range out {
		if _, err := fmt.Sscan(fmt.Sprint(v), into[i]); err != nil {
			return decision{}, fmt.Errorf("take limits: %w", err)
		}
	}
	d.refused = int(*into[0])
	return d, nil
}

func (s *redisStore) settle(ctx context.Context, tenant, ticket string, now int64, charges []charge, delta []int64) error {
	args := []any{now, ticket}
	for i, c := range charges {
		args = append(args, c.slots, delta[i])
	}
	if err := settleScript.Run(ctx, s.client, keys(tenant, charges), args...).Err(); err != nil {
		return fmt.Errorf("give limits back: %w", err)
	}
	return nil
}
