-- places_leave.lua removes the place of a waiter that gives up, as Redisson's fair
-- lock does.
--
-- KEYS[1]  queue
-- KEYS[2]  deadlines
-- ARGV[1]  owner
-- ARGV[2]  for how long the waiter has wanted to wait, in milliseconds
local behind = false
for _, owner in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if behind then
    redis.call('ZINCRBY', KEYS[2], -tonumber(ARGV[2]), owner)
  end
  behind = behind or owner == ARGV[1]
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('LREM', KEYS[1], 0, ARGV[1])
