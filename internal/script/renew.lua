-- renew.lua extends many leases that their owners still hold.
--
-- KEYS[1..n]    locks
-- ARGV[1]       lease in milliseconds
-- ARGV[2..n+1]  the owner of each
--
-- Returns an array with the exceptions. A position (from 1) is that of a lock
-- which is lost: its record is gone, carries another owner, or is no lock any
-- more. An array of a position and an error text is that of a lock which could
-- not be renewed. One lock's error does not keep the others from being renewed.
--
-- Safe to repeat. It never creates a record and never shortens the life of
-- one; one that was made to live for ever gets its end back.
local lease = tonumber(ARGV[1])
local out = {}
for i = 1, #KEYS do
  local answer = redis.pcall('HEXISTS', KEYS[i], ARGV[i + 1])
  if answer == 1 then
    answer = redis.pcall('PTTL', KEYS[i])
    if type(answer) == 'number' and answer < lease then
      answer = redis.pcall('PEXPIRE', KEYS[i], lease)
    end
    if type(answer) == 'table' then
      out[#out + 1] = {i, answer.err}
    end
  elseif answer == 0 or string.find(answer.err, 'WRONGTYPE', 1, true) then
    out[#out + 1] = i
  else
    out[#out + 1] = {i, answer.err}
  end
end
return out
