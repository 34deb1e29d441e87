-- permits_acquire.lua takes permits, for several requests in one call.
--
-- KEYS[2i-1], KEYS[2i]  of request i: the counter of free permits, and the permits that
--                       are taken
-- ARGV[1]         lease in milliseconds
-- ARGV[2..]       for each request:
--                   channel
--                   gatherer the key of who gathers; see below why it is no KEY
--                   n        how many permits
--                   limit    how many there are if there is no counter yet
--                   gather   milliseconds for which to keep free permits if they are fewer
--                            than n, or 0
--                   most     the most permits that one of the holders may have
--                   holders  how many holders follow
--                   the new holder, then others of this manager that may have permits
--
-- Returns an array with an answer for each request:
--         nil        acquired
--         ttl        not acquired: milliseconds until the next permit expires, -1 if none does
--         {ttl, 1}   not acquired, and gather is not 0: what is free was kept
--         {ttl, 0}   the same, but another manager gathers, or there are fewer than n permits.
--                    ttl ends no later than the gathering
--         {-1}       the name is in use as another kind of lock
--         {-2, limit}  not acquired: n is larger than the limit, which is not 0
--         error      it failed, which does not keep the others from being served
--
-- A permit is a member of a sorted set: a holder and two bytes. Its score is the instant
-- at which it expires, by the server's clock. Safe to repeat: a holder that has all it wants
-- keeps it. What other runs have got is taken over, and its life is not shortened.
--
-- One manager gathers at a time: two could each keep what the other one lacks. While it
-- gathers, the others are refused, even if permits are free: they could take each permit that
-- comes free before the one that gathers is told of it.
--
-- While a slot of a cluster is moved, a server runs no script that has some of its keys and
-- not the others, and the key of who gathers is seldom there. So it is no KEY. Then it can't be
-- read, or may be at the other master, and nobody begins to gather.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local lease = tonumber(ARGV[1])
local no_end = 922337203685477 -- the least score of a permit of Redisson's without a lease
local at = 2

local function id(holder, i)
  return holder .. string.char(math.floor(i / 256), i % 256)
end

-- acquire serves the request whose arguments begin at first.
local function acquire(counter, taken, first)
  local channel, gatherer = ARGV[first], ARGV[first + 1]
  first = first + 2
  local n, limit, gather = tonumber(ARGV[first]), tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  local most, holders = tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4])
  local new = ARGV[first + 5]

  -- Reads come first: a key of another type fails before anything is written.
  local free = redis.pcall('GET', counter)
  if type(free) == 'table' then
    if type(redis.pcall('HLEN', counter)) == 'number' then
      return {-1}
    end
    return free
  end
  -- freed are the expired permits, and those that the holders have already. All are given
  -- back to the counter, and then taken again.
  local freed = redis.call('ZRANGEBYSCORE', taken, '-inf', now, 'LIMIT', 0, 1000)
  local scores = {} -- of those in freed
  local mine = 0 -- how many the new holder has
  for _, member in ipairs(freed) do
    scores[member] = now
  end
  for h = first + 5, first + 4 + holders do -- the new holder, too: a copy of this may have run
    for i = 0, most - 1 do
      local member = id(ARGV[h], i)
      local score = not scores[member] and redis.call('ZSCORE', taken, member)
      if score then
        freed[#freed + 1] = member
        scores[member] = tonumber(score)
        if h == first + 5 and i < n then
          mine = mine + 1
        end
      end
    end
    if mine == n then
      return false -- a copy of this has run
    end
  end
  if not free then -- those that are taken count
    free = limit - redis.call('ZCARD', taken) -- negative if more are taken than the limit
    redis.call('SET', counter, free)
  end
  if not string.find(free, '^%-?%d+$') then
    return {err = 'WRONGTYPE the key does not count permits'}
  end
  free = tonumber(free) + #freed
  local take, life, gathers = 0, lease, 0
  local who = redis.pcall('GET', gatherer) -- of another type: nobody gathers, and nobody can
  local ours = not who or who == string.sub(new, 1, 8)
  local reserved = -1 -- milliseconds for which another manager gathers
  if not ours and type(who) == 'string' then
    reserved = redis.call('PTTL', gatherer) -- -1, if it would never end: it is not ours to know
  end
  if ours and gather > 0 and n <= free + redis.call('ZCARD', taken) - #freed then -- if n exceeds the limit, gathering is of no use
    gathers = 1
    if not who and type(redis.pcall('EXISTS', counter, gatherer)) == 'table' then
      gathers = 0 -- it may be at the other master
    end
  end
  if reserved >= 0 then
    take = 0
  elseif free >= n then
    take = n
  elseif gathers == 1 then
    take, life = math.max(0, math.min(free, n)), gather
  end

  -- ZREM comes before INCRBY. A script that stops between them loses a permit. In the other
  -- order it would grant one twice.
  if #freed > 0 then
    redis.call('ZREM', taken, unpack(freed))
  end
  if #freed ~= take then
    local ok = redis.pcall('INCRBY', counter, #freed - take)
    if type(ok) == 'table' then
      for _, member in ipairs(freed) do
        redis.pcall('ZADD', taken, scores[member], member)
      end
      return ok
    end
  end
  if take > 0 then
    local add = {}
    for i = 0, take - 1 do
      local member = id(new, i)
      add[2 * i + 1], add[2 * i + 2] = now + life, member
    end
    local ok = redis.pcall('ZADD', taken, unpack(add))
    if type(ok) == 'table' then
      redis.pcall('INCRBY', counter, take)
      return ok
    end
    local ttl = redis.pcall('PTTL', counter)
    if type(ttl) == 'number' and ttl > 0 then -- its user gave it an end
      redis.pcall('PEXPIRE', taken, ttl)
    end
  end
  local ended = gathers == 1 and who and take == n -- others may have been refused what is left
  if free > take and (#freed > take or ended) then
    redis.pcall('PUBLISH', channel, free - take)
  end
  if take == n then
    if gathers == 1 then
      redis.pcall('DEL', gatherer)
    end
    return false
  end
  local all = free - take + redis.call('ZCARD', taken)
  if n > all and all > 0 then
    return {-2, all}
  end
  local ttl, first_end = -1, redis.call('ZRANGEBYSCORE', taken, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first_end[2] and tonumber(first_end[2]) < no_end then
    ttl = math.max(0, math.ceil(tonumber(first_end[2]) - now))
  end
  if reserved >= 0 and (ttl < 0 or ttl > reserved) then
    ttl = math.max(1, reserved)
  end
  if gather == 0 then
    return ttl
  end
  if gathers == 1 then
    redis.pcall('SET', gatherer, string.sub(new, 1, 8), 'PX', gather)
  end
  return {ttl, gathers}
end

local out = {}
for r = 1, #KEYS / 2 do
  local ok, answer = pcall(acquire, KEYS[2 * r - 1], KEYS[2 * r], at)
  if not ok and type(answer) ~= 'table' then
    answer = {err = tostring(answer)}
  end
  out[r] = answer
  at = at + 7 + tonumber(ARGV[at + 6])
end
return out
