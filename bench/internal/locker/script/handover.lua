-- handover.lua joins the line for a lock, gives the lock to the first in line, or
-- both.
--
-- KEYS[1]  lock
-- KEYS[2]  line: list of clients
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  client that gives the lock back; empty: nobody
-- ARGV[3]  client that joins the line; empty: nobody
--
-- A client that gives the lock back joins only if another client is in line.
-- The message to a client is the name of the lock that the client was given.
-- Returns 1 if somebody was given the lock, else 0.
if ARGV[2] == '' then
  redis.call('RPUSH', KEYS[2], ARGV[3])
end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then
  return 0
end
local next = redis.call('LPOP', KEYS[2])
if not next then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], next, 'PX', ARGV[1])
redis.call('PUBLISH', next, KEYS[1])
if ARGV[2] ~= '' and ARGV[3] ~= '' then
  redis.call('RPUSH', KEYS[2], ARGV[3])
end
return 1
