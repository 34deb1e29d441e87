-- renew.lua extends many leases that their owners still hold.
--
-- KEYS[1..n]    locks
-- ARGV[1]       lease in milliseconds
-- ARGV[2..n+1]  the owner of each
--
-- Returns an array with the position (from 1) of every lock that is lost:
-- its record is gone, carries another owner, or is no lock any more.
--
-- Safe to repeat. It never creates a record and never shortens the life of
-- one; one that was made to live for ever gets its end back.
local lease = tonumber(ARGV[1])
local lost = {}
for i = 1, #KEYS do
  local mine = redis.pcall('HEXISTS', KEYS[i], ARGV[i + 1])
  if mine == 1 then
    if redis.call('PTTL', KEYS[i]) < lease then
      redis.call('PEXPIRE', KEYS[i], lease)
    end
  elseif mine == 0 or string.find(mine.err, 'WRONGTYPE', 1, true) then
    lost[#lost + 1] = i
  else
    return mine
  end
end
return lost
