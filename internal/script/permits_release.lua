-- permits_release.lua gives permits back, for several holders in one call, and tells
-- those who wait. It begins with plain.lua, line.lua and permits.lua.
--
-- KEYS[2i-1], KEYS[2i]  of release i: the counter of free permits, and the permits that
--                 are taken
-- ARGV[1]         the manager
-- ARGV[2..]       of each release: the channel; the two keys of the line; the number of the
--                 script; 1 if the manager leaves the line; the limit at which forget removes
--                 the counter, or 0; how many permits a holder may have; how many holders follow,
--                 maybe none; every holder of this manager that may have permits
--
-- Returns an array with an answer for each release:
--         nil      none of these holders had a permit
--         array    how many permits were given back that had not expired; how many
--                  clients subscribe that stand in no line, -1 if no message was published; and
--                  the error of PUBLISH if it failed
--         error    it failed, which does not keep the others from being given back
--
-- Safe to repeat: the second run returns nil. An expired permit is removed and does not
-- count as given back. If the counter is gone, so is the semaphore, and no permit comes
-- free.
--
-- A counter that the next acquire would set to the same number is removed: see forget.
local manager = ARGV[1]

local function release(counter, taken, first)
  local channel, line = ARGV[first], {channel = ARGV[first], list = ARGV[first + 1], wants = ARGV[first + 2]}
  local number, leaves = tonumber(ARGV[first + 3]), ARGV[first + 4] == '1'
  local most, holders = tonumber(ARGV[first + 6]), tonumber(ARGV[first + 7])
  local there = redis.pcall('GET', counter)
  if type(there) == 'table' then
    if not string.find(there.err, 'WRONGTYPE', 1, true) then
      return there
    end
    there = false -- the counter is gone, and another kind of lock has the name
  end
  local given, members, scores = 0, {}, {}
  for h = first + 8, first + 7 + holders do
    for i = 0, most - 1 do
      local permit = member(ARGV[h], i)
      local score = redis.call('ZSCORE', taken, permit)
      if score then
        members[#members + 1], scores[#scores + 1] = permit, score
        if tonumber(score) > now then
          given = given + 1
        end
      end
    end
  end
  if leaves then
    pcall(leave, line, manager, number)
  end
  if #members == 0 then
    if leaves and there and tonumber(there) then -- others were refused what is free
      pcall(tell, line, tonumber(there))
    end
    return false
  end
  redis.call('ZREM', taken, unpack(members))
  if not there then
    return given > 0 and {given, -1}
  end
  local free = redis.pcall('INCRBY', counter, #members)
  if type(free) == 'table' then
    for i = 1, #members do -- one by one: a call takes no more than some 8,000 arguments
      redis.pcall('ZADD', taken, scores[i], members[i])
    end
    return free
  end
  local reached = -1
  if free > 0 then
    local served = pcall(tell, line, free)
    reached = publish(channel, string.format('%s%.0f', served and '0' or '00', free))
  end
  if given == 0 then
    return false
  elseif type(reached) == 'string' then
    return {given, -1, reached}
  end
  return {given, reached}
end

-- forget removes the counter if as many permits are free as limit says, and nobody waits in the line.
-- Permits that have expired are free.
local function forget(counter, taken, line, limit)
  if redis.call('EXISTS', line) == 0 and redis.call('ZCOUNT', taken, '(' .. now, '+inf') == 0
    and redis.call('GET', counter) + redis.call('ZCARD', taken) == limit then
    redis.call('DEL', counter, taken)
  end
end

return each(2, 8, function(counter, taken, first)
  local ok, answer = pcall(release, counter, taken, first)
  local limit = tonumber(ARGV[first + 5])
  if limit > 0 then
    pcall(forget, counter, taken, ARGV[first + 1], limit)
  end
  if not ok then
    error(answer, 0)
  end
  return answer
end)
