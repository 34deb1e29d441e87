-- fair_transfer.lua records that a lock has passed from one holder to another
-- within this manager, and sets its lease. If nobody has the lock, it passes to
-- the new holder only if that is first in the queue. Else it is given back.
-- Keys and arguments: see fair.lua.
--
-- Returns nil                               the record carries none of these
--                                           holders: the lock is lost
--         {1, front, mixed, missing, token} done; the last of the tokens taken is
--                                           there only if tokens were asked for
--         {0, ttl, mixed, missing}          given back; the remaining life of the
--                                           record of the first, or how long the first
--                                           keeps its place
--
-- missing is 1 if another place is gone, or if the lock was given back and the new
-- holder has no place.
--
-- Safe to repeat: the second run finds the new holder, or no record. It never
-- creates a record. Only the run that records the new holder may shorten the life of
-- one.
local mine = place(ARGV[9])
local recorded = has(mine)
if not recorded and not carries(others) then
  return false
end
if broken then
  return broken
end
redis.pcall('HDEL', lock, '') -- after a write none is refused for lack of memory
note()
clean()
local empty = not head() -- then the new holder needs no place
join((recorded or empty) and mine)
local missing = refresh(mine)
expire()
if ARGV[8] == '1' and not recorded and not empty and head() ~= mine then
  if not redis.call('ZSCORE', deadlines, mine) then
    missing = 1
  end
  redis.call('DEL', lock)
  serve()
  return {0, untilFree(), mixed(), missing}
end
local token = install(mine, recorded and redis.call('PTTL', lock) or -1)
if type(token) == 'table' then
  return token
end
return {1, front(), mixed(), missing, token}
