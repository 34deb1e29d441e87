-- release_many.lua is release.lua for many locks in one call: those whose
-- record can carry one owner only.
--
-- KEYS[1..n]   locks
-- ARGV[1..2n]  the owner and the channel of each
--
-- Returns an array with what release.lua would return for each. A lock that
-- fails has its error there, and the others are released all the same.
local out = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  local answer = redis.pcall('HEXISTS', key, ARGV[2 * i - 1])
  if answer == 0 then
    answer = false
  elseif answer == 1 then
    answer = redis.pcall('DEL', key)
    if answer == 1 then
      answer = redis.pcall('PUBLISH', ARGV[2 * i], '0')
      if type(answer) == 'table' then
        answer = answer.err
      end
    end
  end
  out[i] = answer
end
return out
