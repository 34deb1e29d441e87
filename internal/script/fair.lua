-- fair.lua is the first part of all scripts of fair locks.
--
-- KEYS[1]  lock              hash: holder -> 1
-- KEYS[2]  queue             list of those who wait, the first is next
-- KEYS[3]  deadlines         sorted set: who waits -> until when, in ms since 1970
-- KEYS[4]  waits             hash, see below; expires ARGV[2] after the last write
-- KEYS[5]  a key that never exists, see below
-- KEYS[6]  token counter
-- ARGV[1]  the ID of the manager
-- ARGV[2]  for how long a place lasts, in milliseconds
-- ARGV[3]  the least number that waits: the manager's places with smaller numbers are over
-- ARGV[4]  1: move the deadlines of all places of the manager, and sort them
-- ARGV[5]  with ARGV[4], how many places the manager should have
-- ARGV[6]  lease in milliseconds
-- ARGV[7]  how many fencing tokens to take, 0 for none
-- ARGV[8]  1: no hold uses the manager's record (for a transfer only)
-- ARGV[9]  the number of the new holder
-- ARGV[10] the number of the script: later ones of the manager have larger ones
-- ARGV[11] channel           the first part of the names of the channels
-- ARGV[12] a text without spaces, which a grant by message returns
-- ARGV[13] the lease of a grant by message, in milliseconds
-- ARGV[14] a secret of the manager, hexadecimal; empty: grant nothing by message
-- ARGV[15] how many fencing tokens a grant by message takes, 0 or 1
-- ARGV[16] 1: grant nothing by message now, but tell who is first
-- ARGV[17..] three lists of numbers, each after its length: those that the
--            record may carry, those that join the queue, those that leave it
--
-- A member of the queue is a holder ID. That of this library is
-- manager:number:f. Others are of Redisson, which writes the same queue.
--
-- # Deadlines
--
-- A client removes members at the head of the queue whose deadline is over. A
-- Redisson client that joins gets a deadline that is later than that of the
-- member before it by its own wait. When it gets the lock or gives up, it moves
-- the deadlines of all behind it back by its wait. So the deadline of a place
-- includes the waits of all Redisson members before it:
--
--   deadline of a place = now + sum of the waits of Redisson's members before it
--                         + how long a place lasts
--
-- The queue does not have these waits. A member's wait is its deadline less that of
-- the member before it, until somebody moves the latter. We do move ours. So
-- each script first notes the waits of members that came since the last one: in
-- the hash KEYS[4], by member. The field sum has the sum of the
-- waits of all such members in the queue, or more. The wait of a member without another
-- before it can't be read. It counts as five minutes, or as all that is left if
-- that is more.
--
-- A client of Redisson does not know the hash, and may be the last one to leave the queue. So
-- the hash expires when no script has run for as long as a place lasts. The scripts of managers
-- that wait run more often. After a longer silence the next script notes the waits of all
-- members again.
--
-- A place that leaves lowers no deadline. So a manager that died delays the members behind
-- it no longer than a place lasts. The clock is that of the server.
--
-- # Grants by message
--
-- A script that finds the lock free serves the queue: it records the first member as the holder, if
-- that is a place whose manager asks for grants by message. The message is
--
--   number text elapsed lease token check
--
-- number is that of the place, text is ARGV[12] of the newest script of the manager, and elapsed is
-- how many microseconds have passed since that script, by the clock of the server. token is the
-- fencing token, or 0 if there is none. check is the SHA-1 of the manager's secret, the name of the lock,
-- a space, and all before check. The locks "a" and "{a}" share a queue and channels, so the name counts. A
-- client that may publish, but not read KEYS[4], can't forge a grant.
--
-- Two clocks must not be compared: a failover may have brought another server since. So the hash
-- has the replication ID of the server at that script, which a failover changes. If the ID differs,
-- or nobody hears the grant, the place is only told that it is first, as a member of Redisson's is.
--
-- A manager is served by message once, and again when it has run a script since. If it has run none
-- for two fifths of ARGV[2], its places go when they are first: see silent.
--
-- # Copies that run late
--
-- The hash KEYS[4] also has what is known of each manager, by @manager: the largest ARGV[10], and
-- what grants by message need. A script with a smaller number is older than one that has run. It
-- joins nothing, moves no deadlines and takes no free lock.
--
-- # Slots that are moved
--
-- The first four keys come and go while a script runs. While a slot of a cluster is moved, its
-- old master fails a command for a key that has just gone, in the middle of the script.
-- It runs no script at all of which it has some keys and not the others. So all scripts have a
-- key that is never there, and run when the slot has moved.
local lock, queue, deadlines, waits, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[11]
local manager, life, before = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local nextArg = 17
local function numbers()
  local n, out = tonumber(ARGV[nextArg]), {}
  for i = 1, n do
    out[i] = ARGV[nextArg + i]
  end
  nextArg = nextArg + n + 1
  return out
end
local others, joining, leaving = numbers(), numbers(), numbers()

-- broken is the error of a key beside the lock's own that can't be used, for instance
-- because it has data of another type, or nil. All scripts look at it before they write.
local broken
local function try(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' then
    broken = answer
    return false
  end
  return answer
end

-- numberIn returns the number that a text is, or 0 if it is none that we write.
local function numberIn(text)
  local digits = string.match(text or '', '^%d+$')
  if digits and #digits <= 15 then
    return tonumber(digits)
  end
  return 0
end
local seen = numberIn(string.match(try('HGET', waits, '@' .. manager) or '', '^%d+'))
local top = try('LINDEX', queue, 0) -- the first member; false: none; nil: not known, see change
try('ZSCORE', deadlines, manager) -- only to find out whether the key can be used: see broken
local late = seen > tonumber(ARGV[10])
if late then
  joining = {}
end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local micros = clock[1] * 1000000 + clock[2]

local function decimal(n)
  return string.format('%.0f', n)
end

local function place(number)
  return manager .. ':' .. number .. ':f'
end

-- ofUs reports whether a member is of this library.
local function ofUs(member)
  return string.sub(member, -2) == ':f'
end

-- holder returns the field of the record, or nil if it has none, or several. A record with many
-- fields, which are not ours, is not read, unless the user may not use HLEN.
local function holder()
  local n = redis.pcall('HLEN', lock)
  if type(n) == 'table' or n == 1 then
    return redis.call('HGETALL', lock)[1]
  end
end

-- plain reports whether a field is of a plain lock of this library, whose managers have UUIDs of
-- version 8. Redisson's clients have UUIDs of version 4, and their records do not show the kind.
local function plain(field)
  return field and not ofUs(field) and string.find(field, '^%x+%-%x+%-8%x+%-%x+%-%x+:') == 1
end

-- ownNumber returns the number of a place of this manager, or nil. A text that place
-- does not return, such as manager:nan:f, is none. Nor is a number above 10^15: Lua
-- would round it.
local function ownNumber(member)
  if ofUs(member) and string.sub(member, 1, #manager + 1) == manager .. ':' then
    local digits = string.match(string.sub(member, #manager + 2, -3), '^[1-9]%d*$')
    if digits and #digits <= 15 then
      return tonumber(digits)
    end
  end
end

-- deadline returns the deadline of a member, or nil.
local function deadline(member)
  local score = member and redis.call('ZSCORE', deadlines, member)
  return score and tonumber(score) or nil
end

-- change changes the queue.
local function change(...)
  top = nil
  return redis.call(...)
end

local function head()
  if top == nil then
    top = redis.call('LINDEX', queue, 0)
  end
  return top
end

-- remove removes a place from the queue, if the place is there. If no place is left, remove deletes the notes.
local function remove(member)
  if redis.call('ZREM', deadlines, member) == 1 then
    change('LREM', queue, 1, member)
    if not head() then
      redis.call('DEL', waits, deadlines)
    end
  end
end

-- move moves the deadline of a member, if it has one, but not back to before now + sum. sum is the sum of
-- the waits up to the member's own.
local function move(member, by, sum)
  local till = deadline(member)
  if till then
    redis.call('ZADD', deadlines, decimal(math.max(till + by, math.min(till, now + sum))), member)
  end
end

-- keep keeps the hash KEYS[4] for as long as a place lasts.
local function keep()
  redis.pcall('PEXPIRE', waits, decimal(life))
end

-- note notes the waits of Redisson's members behind the last place of this library, or of
-- all if the hash has expired. It must come before any change of a deadline. A thread that
-- waits again may have another wait than before. If a place is before the thread, the place may
-- have moved since, and the difference may be too small: the larger wait counts. note gives
-- up if the server has no memory for it.
local function note()
  if seen > 0 then -- the manager stands in the queue
    keep() -- after a write none is refused for lack of memory
  end
  local unread, previous = {}, redis.call('LINDEX', queue, -1)
  if previous and seen == 0 and redis.call('EXISTS', waits) == 0 then
    local all = redis.call('LRANGE', queue, 0, -1)
    for i = #all, 1, -1 do
      unread[#unread + 1] = all[i]
    end
    previous = nil
  end
  while previous and not ofUs(previous) do
    unread[#unread + 1] = previous
    previous = redis.call('LINDEX', queue, -1 - #unread)
  end
  local last, more = nil, 0
  for i = #unread, 1, -1 do
    local member = unread[i]
    if ofUs(member) then
      last = nil
    else
      last = last or deadline(previous)
      local till = deadline(member) or now
      local noted = tonumber(redis.call('HGET', waits, member) or nil)
      local old, wait = noted or 0, nil
      if last then
        wait = math.max(0, till - last)
        if i == #unread then
          wait = math.max(old, wait)
        end
      else
        wait = noted or math.max(300000, till - now)
      end
      if wait ~= noted then
        redis.pcall('HSET', waits, member, decimal(wait))
        more = more + wait - old
      end
      last = till
    end
    previous = member
  end
  if more ~= 0 then
    redis.pcall('HSET', waits, 'sum', decimal(math.max(0, numberIn(redis.call('HGET', waits, 'sum')) + more)))
    keep()
  end
end

-- waitsAhead returns the sum of the waits of Redisson's members, or more.
local function waitsAhead()
  return numberIn(redis.call('HGET', waits, 'sum'))
end

-- ownerOf returns the manager of a place.
local function ownerOf(member)
  return string.match(member, '^(.*):%d+:f$') or member
end

-- silent reports whether the manager of a place has run no script for two fifths of ARGV[2] after
-- grantTo tried to serve it: the manager has died, or hangs.
local function silent(member)
  local till = string.match(redis.call('HGET', waits, '@' .. ownerOf(member)) or '', '^%d+ (%d+)$')
  return till and tonumber(till) <= now
end

-- clean removes first members whose deadlines are over, whose managers are silent, or that are places of this
-- manager below ARGV[3]. It also removes the places that leave. If the first member is then a place, its deadline
-- is no later than a place lasts, and the deadlines of Redisson's members behind it move with it.
local function clean()
  while true do
    local first = head()
    if not first then
      break
    end
    local n, till = ownNumber(first), deadline(first)
    if till and till > now and not (n and n < before or ofUs(first) and not n and silent(first)) then
      break
    end
    change('LPOP', queue)
    redis.call('ZREM', deadlines, first)
    if not ofUs(first) then
      redis.call('HDEL', waits, first)
    end
  end
  for i = 1, #leaving do
    remove(place(leaving[i]))
  end
  local first = head()
  if not first then
    if redis.call('EXISTS', waits, deadlines) > 0 then -- after a write none is refused for lack of memory
      redis.call('DEL', waits, deadlines)
    end
  elseif ofUs(first) then
    local over = (deadline(first) or now) - now - life
    if over > 0 then
      move(first, -over, life)
      local sum = 0
      for _, member in ipairs(redis.call('LRANGE', queue, 1, -1)) do
        if ofUs(member) then
          break
        end
        sum = sum + numberIn(redis.call('HGET', waits, member))
        move(member, -over, sum)
      end
    end
  end
end

-- remember notes that the script has run, while anybody waits.
local function remember()
  if not late and head() then
    local noted = ARGV[10]
    if ARGV[14] ~= '' then
      noted = table.concat({noted, ARGV[12], ARGV[13], ARGV[14], ARGV[15], decimal(micros), server()}, ' ')
    end
    redis.pcall('HSET', waits, '@' .. manager, noted)
  end
end

-- listed returns the members of the queue as the keys of a table.
local function listed()
  local out = {}
  for _, member in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    out[member] = true
  end
  return out
end

-- join adds the places that join the queue. mine, if given, does not join: it needs no place, or has
-- the lock already. If it joined, refresh would give it the position of an earlier place. A place that has a
-- deadline is in the queue already, unless the queue has lost it: a script that moves the deadlines
-- looks for it there.
local function join(mine)
  local there = ARGV[4] == '1' and #joining > 0 and listed()
  local till
  for i = 1, #joining do
    local member = place(joining[i])
    if member ~= mine then
      till = till or decimal(now + waitsAhead() + life)
      local new = redis.call('ZADD', deadlines, 'NX', till, member) == 1
      if there then
        new = not there[member]
      end
      if new then
        change('RPUSH', queue, member)
      end
    end
  end
  remember()
end

-- refresh sets new deadlines for our places and sorts them, if ARGV[4] is 1. The
-- deadlines of Redisson's members behind a place move with it: their waits begin when
-- it has gone. The set of positions that our places have in the queue stays; the numbers
-- go to these positions in ascending order. It returns 1 if fewer than ARGV[5] places beside
-- mine are left, else 0. If mine is not in the queue, its deadline is removed.
local function refresh(mine)
  if ARGV[4] ~= '1' or late then
    return 0
  end
  for _, member in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    local n = ownNumber(member)
    if n and n < before then
      redis.call('ZREM', deadlines, member)
      change('LREM', queue, 1, member)
    end
  end
  local noted, there, sum = {}, {}, 0
  local fields = redis.call('HGETALL', waits)
  for i = 1, #fields, 2 do
    noted[fields[i]] = numberIn(fields[i + 1])
  end
  local all = redis.call('LRANGE', queue, 0, -1)
  local at, ours, till, sorted, by = {}, {}, {}, true, 0
  for i, member in ipairs(all) do
    local n = ownNumber(member)
    if n then
      if (noted['sum'] or 0) > 0 then
        by = now + sum + life - (deadline(member) or now + sum + life)
      end
      sorted = sorted and (#ours == 0 or ours[#ours] < n)
      at[#at + 1], ours[#ours + 1], till[#till + 1] = i, n, decimal(now + sum + life)
    elseif not ofUs(member) then
      there[member] = true
      sum = sum + (noted[member] or 300000)
      if by ~= 0 then
        move(member, by, sum)
      end
    else
      by = 0 -- the manager of this place does the same for those behind it
    end
  end
  if not sorted then
    table.sort(ours)
  end
  local moved, left, without = {}, 0, true
  for i = 1, #ours do
    local member = place(decimal(ours[i]))
    all[at[i]] = member
    if member == mine then
      without = false
    else
      left = left + 1
    end
    moved[#moved + 1], moved[#moved + 2] = till[i], member
    if #moved == 1000 or i == #ours then
      redis.call('ZADD', deadlines, unpack(moved))
      moved = {}
    end
  end
  if not sorted then
    change('DEL', queue)
    for i = 1, #all, 1000 do
      change('RPUSH', queue, unpack(all, i, math.min(i + 999, #all)))
    end
  end
  for member in pairs(noted) do
    if member ~= 'sum' and string.sub(member, 1, 1) ~= '@' and not there[member] then
      redis.call('HDEL', waits, member)
    end
  end
  if noted['sum'] and noted['sum'] ~= sum then
    redis.call('HSET', waits, 'sum', decimal(sum))
  end
  if without then
    redis.call('ZREM', deadlines, mine)
  end
  if left < tonumber(ARGV[5]) then
    return 1
  end
  return 0
end

-- expire lets the hash KEYS[4] end, and the queue with its places if all of them are of this library: a
-- manager that lives extends them in time. While Redisson waits, the queue must not end. It then ends in 30
-- years, because the user may not be allowed PERSIST. The deadlines come before the queue: a client of Redisson
-- does not get past a place without a deadline.
local function expire()
  local first = head()
  if first then
    keep()
    local ttl = ofUs(first) and waitsAhead() == 0 and life or 1000000000000
    redis.pcall('PEXPIRE', deadlines, decimal(ttl))
    redis.pcall('PEXPIRE', queue, decimal(ttl))
  end
end

-- front returns the number of the last of our places before the first other member, or 0. It looks at
-- 64 members.
local function front()
  local last, first = 0, head()
  if first and ownNumber(first) then
    for _, member in ipairs(redis.call('LRANGE', queue, 0, 63)) do
      local n = ownNumber(member)
      if not n then
        break
      end
      last = n
    end
  end
  return last
end

-- mixed returns 1 if a client of Redisson waits or has the lock, else 0.
local function mixed()
  if waitsAhead() > 0 then
    return 1
  end
  local field = holder()
  if field and not ofUs(field) then
    return 1
  end
  return 0
end

-- tell publishes to the first member, unless that is ours. It returns the number of
-- receivers, or the server's error. If the first member is a place of another manager,
-- which may have died, the first Redisson member behind it is told too: it may wait for
-- that message only.
local function tell()
  local first = head()
  if not first or ownNumber(first) then
    return 0
  end
  if ofUs(first) then
    for _, member in ipairs(redis.call('LRANGE', queue, 1, 63)) do
      if not ofUs(member) then
        redis.pcall('PUBLISH', channel .. ':' .. member, '0')
        break
      end
    end
    first = ownerOf(first)
  end
  return redis.pcall('PUBLISH', channel .. ':' .. first, '0')
end

-- grantTo records the first member as the holder, and tells its manager so. It returns false if it
-- can't: see Grants by message.
local function grantTo(first)
  local owner, n = ownerOf(first), string.match(first, ':(%d+):f$')
  local id, text, lease, secret, tokens, since, where =
    string.match(redis.call('HGET', waits, '@' .. owner) or '', '^(%d+) (%S+) (%d+) (%x+) (%d) (%d+) (%x+)$')
  if not id or not n or where ~= server() then
    return false
  end
  -- Subscribers are counted before PUBLISH, which does not count a subscriber at a replica: such a subscriber would
  -- take a grant whose record is deleted below.
  local to = channel .. ':' .. owner
  local hear = redis.pcall('PUBSUB', 'NUMSUB', to)
  local till = now + life * 2 / 5 -- a manager that lives moves its deadlines before
  redis.pcall('HSET', waits, '@' .. owner, id .. ' ' .. decimal(till))
  if hear.err or hear[2] == 0 then
    if (deadline(first) or 0) > till then
      redis.call('ZADD', deadlines, decimal(till), first)
    end
    return false
  end
  local token = tokens == '1' and tokenOf(KEYS[6]) or 0
  if type(token) == 'table' or type(redis.pcall('HSET', lock, first, 1)) == 'table'
    or not send(lock, to, n, text, micros, since, lease, token, secret) then
    return false
  end
  remove(first)
  return true
end

-- serve gives a free lock to the first member, or tells the first member that the lock is free. It
-- returns what tell returns, or 1.
local function serve()
  local first = head()
  if ARGV[16] ~= '1' and first and ofUs(first) and not ownNumber(first) and grantTo(first) then
    return 1
  end
  return tell()
end

-- untilFree returns how many milliseconds are left of the record, or of the first member's deadline.
local function untilFree()
  local ttl = redis.call('PTTL', lock)
  if ttl > 0 then
    return ttl
  end
  return math.max(0, (deadline(head()) or now) - now)
end

-- install writes the new holder into the record, sets its TTL, and removes the other
-- numbers and the holder's place. It returns the last token taken, nil, or the server's
-- error. The TTL becomes no shorter than least: the record's remaining life if it has the
-- new holder already, else -1.
local function install(mine, least)
  local last
  if ARGV[7] ~= '0' then
    redis.call('INCRBY', KEYS[6], ARGV[7])
    last = redis.call('GET', KEYS[6]) -- as text: a Lua number has 53 bits
  end
  redis.call('HSET', lock, mine, 1)
  if least < tonumber(ARGV[6]) then
    local set = redis.pcall('PEXPIRE', lock, ARGV[6])
    if type(set) == 'table' then
      -- A lock without an end would be worse than none. One that has an end may be held.
      if redis.pcall('PTTL', lock) == -1 then
        redis.pcall('DEL', lock)
      end
      return set
    end
  end
  for i = 1, #others do
    redis.call('HDEL', lock, place(others[i]))
  end
  remove(mine)
  return last
end

-- has reports whether the record carries a holder. A key of another type carries none.
local function has(member)
  local there = redis.pcall('HEXISTS', lock, member)
  if type(there) == 'table' and not string.find(there.err, 'WRONGTYPE', 1, true) then
    error(there, 0)
  end
  return there == 1
end

-- carries returns the first of some numbers' members that the record carries, or false.
local function carries(numbers)
  for i = 1, #numbers do
    local member = place(numbers[i])
    if has(member) then
      return member
    end
  end
  return false
end
