-- permits_acquire.lua takes permits, for several requests in one call. It begins with line.lua and permits.lua.
--
-- KEYS[2i-1], KEYS[2i]  of request i: the counter of free permits, and the permits that
--                 are taken
-- ARGV[1]         lease in milliseconds
-- ARGV[2]         the manager
-- ARGV[3..]       for each request:
--                   channel
--                   line, wants  the keys of the line
--                   id       the number of the script
--                   waits    for how long the manager stays in the line without a further script,
--                            in milliseconds, if permits are refused; 0: it does not join
--                   deaf     1: the manager may be deaf: see line.lua
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
--         {ttl, 0}   the same, but nothing was kept: another manager is first in the line, or
--                    may be
--         {ttl, x, 0}  the same, and the manager does not stand in the line as it wants
--         {-1}       the name is in use as another kind of lock
--         {-2, limit}  not acquired: n is larger than the limit, which is not 0
--         error      it failed, which does not keep the others from being served
--
-- A permit is a member of a sorted set: a holder and two bytes. Its score is the instant
-- at which it expires, by the server's clock. Safe to repeat: a holder that has all it wants
-- keeps it. What other runs have got is taken over, and its life is not shortened.
--
-- Only the first manager of the line gathers: two could each keep what the other one lacks. The
-- managers behind leave it what comes free. Clients of Redisson do not, so it keeps what it finds.
local lease, manager = tonumber(ARGV[1]), ARGV[2]

-- acquire serves the request whose arguments begin at first.
local function acquire(counter, taken, first)
  local channel, line = ARGV[first], {channel = ARGV[first], list = ARGV[first + 1], wants = ARGV[first + 2]}
  local number, waits, deaf = tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4]), ARGV[first + 5] == '1'
  local n, limit, gather = tonumber(ARGV[first + 6]), tonumber(ARGV[first + 7]), tonumber(ARGV[first + 8])
  local most, holders = tonumber(ARGV[first + 9]), tonumber(ARGV[first + 10])
  local new = first + 11 -- the position of the new holder

  -- Reads come first: a key of another type fails before anything is written.
  local free = redis.pcall('GET', counter)
  if type(free) == 'table' then
    if string.find(free.err, 'WRONGTYPE', 1, true) and type(redis.pcall('HLEN', counter)) == 'number' then
      return {-1}
    end
    return free
  end
  -- freed are the expired permits, and those that the holders have already. All are given
  -- back to the counter, and then taken again.
  local freed = redis.call('ZRANGEBYSCORE', taken, '-inf', now, 'LIMIT', 0, 1000)
  local scores = {} -- of those in freed
  local mine = 0 -- how many the new holder has
  for _, permit in ipairs(freed) do
    scores[permit] = now
  end
  for h = new, new + holders - 1 do -- the new holder, too: a copy of this may have run
    for i = 0, most - 1 do
      local permit = member(ARGV[h], i)
      local score = not scores[permit] and redis.call('ZSCORE', taken, permit)
      if score then
        freed[#freed + 1] = permit
        scores[permit] = tonumber(score)
        if h == new and i < n then
          mine = mine + 1
        end
      end
    end
    if mine == n then
      return false -- a copy of this has run
    end
  end
  if not free then
    free = limit - redis.call('ZCARD', taken) -- negative if more are taken than the limit
    redis.call('SET', counter, free)
  elseif not counts(free) then
    return {err = 'WRONGTYPE the key does not count permits'}
  end
  free = tonumber(free) + #freed
  local lined = redis.pcall('EXISTS', line.list) -- an error: the line may be at the other master
  local kept = 0 -- for other managers
  if lined == 1 and free >= n then
    local ok, sum = pcall(ahead, line, manager, free - n)
    kept = ok and sum or 0
  end
  local take, life, gathers, joined = 0, lease, 0, true
  local all = 0 -- the permits of the name, if take < n
  if kept <= free - n then
    take = n
  else
    all = free + redis.call('ZCARD', taken) - #freed
    if waits > 0 and (n <= all or all <= 0) then
      joined = type(redis.pcall('EXISTS', counter, line.list, line.wants)) == 'number' -- no key is at the other master
      local ok, other = pcall(at, line, 0)
      if joined and ok and gather > 0 and n <= all and (not other or other == manager) then
        gathers, take, life = 1, math.max(0, math.min(free, n)), gather
      end
      local flags = (gathers == 1 and 'g' or '') .. (deaf and 'd' or '')
      joined = joined and pcall(join, line, manager, n - take, number, waits, flags)
      if not joined and free >= n then -- clients of Redisson, which can stand in no line, would take them
        take, life, gathers = n, lease, 0
      end
    end
  end

  if take == n and lined == 1 then
    pcall(leave, line, manager, number) -- first: after a write none is refused for lack of memory
  end
  -- ZREM comes before INCRBY. A script that stops between them loses a permit. In the other
  -- order it would grant one twice.
  if #freed > 0 then
    redis.call('ZREM', taken, unpack(freed))
  end
  if #freed ~= take then
    local ok = redis.pcall('INCRBY', counter, #freed - take)
    if type(ok) == 'table' then
      for _, permit in ipairs(freed) do
        redis.pcall('ZADD', taken, scores[permit], permit)
      end
      return ok
    end
  end
  if take > 0 then
    local add = {}
    for i = 0, take - 1 do
      add[2 * i + 1], add[2 * i + 2] = now + life, member(ARGV[new], i)
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
  local served = lined == 0 or pcall(tell, line, free - take)
  if free > take and #freed > take then -- what was free before is no news
    redis.pcall('PUBLISH', channel, string.format('%s%.0f', served and '0' or '00', free - take))
  end
  if take == n then
    return false
  end
  if n > all and all > 0 then
    return {-2, all}
  end
  local ttl, first_end = -1, redis.call('ZRANGEBYSCORE', taken, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if first_end[2] and tonumber(first_end[2]) < no_end then
    ttl = math.max(0, math.ceil(tonumber(first_end[2]) - now))
  end
  local ok, _, _, _, till = pcall(at, line, 0)
  if ok and free > take and till then -- the first manager may be gone
    ttl = ttl < 0 and till - now or math.min(ttl, till - now)
  end
  if not joined then
    return {ttl, gathers, 0}
  elseif gather == 0 then
    return ttl
  end
  return {ttl, gathers}
end

return each(3, 11, acquire)
