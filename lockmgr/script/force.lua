-- force.lua removes a lock, whoever holds it, and tells those who wait.
--
-- KEYS[1]  lock
-- KEYS[2]  channel
--
-- Returns 1 if there was one, 0 if not.
--
-- Safe to repeat, but not harmless: a repetition may meet the next holder.
local there = redis.call('DEL', KEYS[1])
if there == 1 then
  redis.pcall('PUBLISH', KEYS[2], '0')
end
return there
