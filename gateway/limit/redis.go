package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisStore keeps the state in Redis. Every decision is one script, so replicas never interleave. All keys of a group carry its
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

// adjustScript adds a delta to every rate, or to none if one that grows does not fit. ARGV: now, window, then per key the delta; keys are those of
// rates.
//
//nolint:gochecknoglobals // a constant script
var adjustScript = redis.NewScript(`
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local refused, wait, levels = -1, 0, {}
for i, key in ipairs(KEYS) do
  local delta = tonumber(ARGV[2 + i])
  levels[i] = math.max(tonumber(redis.call('GET', key) or '0') - now, 0)
  local over = levels[i] + delta - window
  if delta > 0 and over > 0 and refused < 0 then refused = i - 1; wait = over end
end
if refused < 0 then
  for i, key in ipairs(KEYS) do
    local delta = tonumber(ARGV[2 + i])
    levels[i] = math.max(levels[i] + delta, 0)
    if levels[i] > 0 then
      redis.call('SET', key, string.format('%.0f', now + levels[i]), 'PX', string.format('%.0f', math.floor(levels[i] / 1000) + 1000))
    else
      redis.call('DEL', key)
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

func keys(group string, charges []charge) []string {
	out := make([]string, len(charges))
	for i, c := range charges {
		out[i] = "sluice:limit:{" + group + "}:" + c.key
	}
	return out
}

func (s *redisStore) take(ctx context.Context, group, ticket string, now int64, charges []charge) (decision, error) {
	args := []any{now, ticket, s.lease, window}
	for _, c := range charges {
		args = append(args, c.slots, c.cost)
	}
	d, err := s.decide(ctx, takeScript, keys(group, charges), args)
	if err != nil {
		return decision{}, fmt.Errorf("take limits: %w", err)
	}
	return d, nil
}

func (s *redisStore) adjust(ctx context.Context, group string, now int64, charges []charge, delta []int64) (decision, error) {
	args, rates, places := []any{now, window}, []charge(nil), []int(nil)
	for i, c := range charges {
		if c.slots == 0 {
			args, rates, places = append(args, delta[i]), append(rates, c), append(places, i)
		}
	}
	got, err := s.decide(ctx, adjustScript, keys(group, rates), args)
	if err != nil {
		return decision{}, fmt.Errorf("adjust limits: %w", err)
	}
	d := decision{refused: got.refused, wait: got.wait, levels: make([]int64, len(charges))}
	for n, i := range places {
		d.levels[i] = got.levels[n]
	}
	if d.refused >= 0 {
		d.refused = places[d.refused]
	}
	return d, nil
}

// decide runs a script that decides over keys.
func (s *redisStore) decide(ctx context.Context, script *redis.Script, keys []string, args []any) (decision, error) {
	out, err := script.Run(ctx, s.client, keys, args...).Slice()
	if err != nil {
		return decision{}, err
	}
	d := decision{levels: make([]int64, len(keys))}
	into := []*int64{new(int64), &d.wait}
	for i := range d.levels {
		into = append(into, &d.levels[i])
	}
	if len(out) != len(into) {
		return decision{}, errors.New("unexpected answer")
	}
	for i, v := range out {
		if _, err := fmt.Sscan(fmt.Sprint(v), into[i]); err != nil {
			return decision{}, fmt.Errorf("read the answer: %w", err)
		}
	}
	d.refused = int(*into[0])
	return d, nil
}

func (s *redisStore) settle(ctx context.Context, group, ticket string, now int64, charges []charge, delta []int64) error {
	args := []any{now, ticket}
	for i, c := range charges {
		args = append(args, c.slots, delta[i])
	}
	if err := settleScript.Run(ctx, s.client, keys(group, charges), args...).Err(); err != nil {
		return fmt.Errorf("give limits back: %w", err)
	}
	return nil
}
