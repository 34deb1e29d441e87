-- permits_release.lua gives permits back, for several holders in one call, and tells
-- those who wait.
--
-- KEYS[2i-1], KEYS[2i]  of release i: the counter of free permits, and the permits that
--                       are taken
-- ARGV            of each release: the channel; the key of who gathers; how many permits a
--                 holder may have; if the request has gathered, the bytes with which the IDs of this manager's permits begin,
--                 else nothing; how many holders follow, maybe none; every holder of this
--                 manager that may have permits
--
-- Returns an array with an answer for each release:
--         nil      none of these holders had a permit
--         array    how many permits were given back that had not expired; how many
--                  subscribers the message reached, -1 if none was published; and the
--                  error of PUBLISH if it failed
--         error    it failed, which does not keep the others from being given back
--
-- Safe to repeat: the second run returns nil. An expired permit is removed and does not
-- count as given back. If the counter is gone, so is the semaphore, and no permit comes
-- free.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local at = 1

local function release(counter, taken, first)
  local channel, gatherer = ARGV[first], ARGV[first + 1]
  first = first + 2
  local most, holders = tonumber(ARGV[first]), tonumber(ARGV[first + 2])
  local there = redis.pcall('GET', counter)
  if type(there) == 'table' then
    if not string.find(there.err, 'WRONGTYPE', 1, true) then
      return there
    end
    there = false -- the counter is gone, and another kind of lock has the name
  end
  local given, members, scores = 0, {}, {}
  for h = first + 3, first + 2 + holders do
    for i = 0, most - 1 do
      local member = ARGV[h] .. string.char(math.floor(i / 256), i % 256)
      local score = redis.call('ZSCORE', taken, member)
      if score then
        members[#members + 1], scores[#scores + 1] = member, score
        if tonumber(score) > now then
          given = given + 1
        end
      end
    end
  end
  local ended = ARGV[first + 1] ~= '' and redis.pcall('GET', gatherer) == ARGV[first + 1]
  if ended then
    redis.pcall('DEL', gatherer)
  end
  if #members == 0 then
    if ended and there and (tonumber(there) or 0) > 0 then -- others were refused what is free
      redis.pcall('PUBLISH', channel, there)
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
    reached = redis.pcall('PUBLISH', channel, free)
  end
  if given == 0 then
    return false
  elseif type(reached) == 'table' then
    return {given, -1, reached.err}
  end
  return {given, reached}
end

local out = {}
for r = 1, #KEYS / 2 do
  local ok, answer = pcall(release, KEYS[2 * r - 1], KEYS[2 * r], at)
  if not ok and type(answer) ~= 'table' then
    answer = {err = tostring(answer)}
  end
  out[r] = answer
  at = at + 5 + tonumber(ARGV[at + 4])
end
return out
