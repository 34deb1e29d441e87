-- reserve.lua gives a lock up whose record stays for a while, under a name that no command of its
-- manager looks for.
--
-- KEYS[1]   lock
-- ARGV[1]   for how many milliseconds the record stays
-- ARGV[2]   the value of the entry: who had the lock
-- ARGV[3]   the entry: the ID by which callers know the hold, and ":kept"
-- ARGV[4..] every owner of this manager that the record may carry
-- ARGV[n]   the last: channel
--
-- Returns nil         the record carries none of these owners
--         integer     given up; how many subscribers the message reached
--         bulk string given up, but the message could not be published: why
--
-- Safe to repeat: the second run returns nil. Waiters are told, because the record may end at another time now.
-- The script may shorten the record's life. So no unanswered acquire may be able to create one of these
-- owners. A server that is out of memory refuses the new entry. The record then keeps its owner, and ends
-- in time all the same.
local key = KEYS[1]
for i = 4, #ARGV - 1 do
  if redis.call('HEXISTS', key, ARGV[i]) == 1 then
    redis.call('PEXPIRE', key, ARGV[1])
    if type(redis.pcall('HSET', key, ARGV[3], ARGV[2])) ~= 'table' then
      for j = i, #ARGV - 1 do
        redis.call('HDEL', key, ARGV[j])
      end
    end
    local told = redis.pcall('PUBLISH', ARGV[#ARGV], '000')
    if type(told) == 'table' then
      return told.err
    end
    return told
  end
end
return false
