-- transfer.lua records that a lock has passed from one owner to another
-- within this manager, and sets its lease.
--
-- KEYS[1]   lock
-- KEYS[2]   token counter    only when ARGV[2] > 0
-- ARGV[1]   lease in milliseconds
-- ARGV[2]   how many fencing tokens to take, 0 for none
-- ARGV[3]   the new owner
-- ARGV[4..] further owners of the same manager that the record may carry
-- ARGV[n]   the last: channel, where others wait
--
-- Returns nil     the record carries none of these owners: the lock is lost
--         integer done; how many others may want the lock: managers in the line, and
--                 clients that stand in no line. -1 when the server would not say
--         array   done; that number, and the last of the tokens taken
--
-- Safe to repeat: the second run finds the new owner. It never creates a
-- record. The run that puts the new owner in the place of another one sets the
-- life of the record, which may become shorter. Later runs never shorten it.
local key = KEYS[1]
local ours = false
for i = 3, #ARGV - 1 do
  if redis.call('HEXISTS', key, ARGV[i]) == 1 then
    ours = i
    break
  end
end
if not ours then
  return false
end
redis.pcall('HDEL', key, '') -- after a write none is refused for lack of memory
local last
if ARGV[2] ~= '0' then
  redis.call('INCRBY', KEYS[2], ARGV[2])
  last = redis.call('GET', KEYS[2])
end
redis.call('HSET', key, ARGV[3], 1)
if ours > 3 or redis.call('PTTL', key) < tonumber(ARGV[1]) then -- 3 is the new owner
  redis.call('PEXPIRE', key, ARGV[1])
end
-- Last, as it may be refused: the record has its end by now.
for i = 4, #ARGV - 1 do
  redis.call('HDEL', key, ARGV[i])
end
local n = waiting(ARGV[#ARGV], beside(key, 'wants'))
if last then
  return {n, last}
end
return n
