-- inspect.lua reads all that the server knows of a lock and changes nothing.
--
-- KEYS[1]  lock
-- KEYS[2]  token counter    only if it is asked for
-- ARGV[1]  channel
-- ARGV[2]  channel of a read-write lock of that name
-- ARGV[3]  queue of a fair lock of that name
-- ARGV[4]  deadlines of those that wait in it
--
-- Returns an array: the remaining life in milliseconds (-1: no end, -2: no
-- such key), how many wait (-1: the server would not say), the
-- last token given (false: none, or the counter is broken), the number of fields of the record, then owner and count of
-- each holder. Of a record with more than 1,000 fields it returns some thousand of them. If there is a
-- queue, the last element is an array: each member of it, up to 1,000 of them, and the
-- milliseconds until its deadline. Texts are cut at 256 bytes: anybody may have written them, and no ID
-- of a holder is as long. The value of a single field is cut at 4,096 bytes: see reserve.lua.
--
-- Safe to repeat.
local most, longest = 1000, 256
local ttl = redis.call('PTTL', KEYS[1])
local channel = ARGV[1]
if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
  channel = ARGV[2]
end
local token = false
if KEYS[2] then
  token = redis.pcall('GETRANGE', KEYS[2], 0, longest - 1)
  if type(token) == 'table' and not string.find(token.err, 'WRONGTYPE', 1, true) then
    return token
  end
  token = type(token) == 'string' and token ~= '' and token
end
local size, fields = redis.call('HLEN', KEYS[1])
if large(KEYS[1], most / size) then
  return {err = 'WRONGTYPE the record is too large'}
elseif size <= most then
  fields = redis.call('HGETALL', KEYS[1])
else
  fields = redis.call('HSCAN', KEYS[1], 0, 'COUNT', most)[2]
  if channel == ARGV[2] then -- some thousand fields need not have it
    fields[#fields + 1] = 'mode'
    fields[#fields + 1] = redis.call('HGET', KEYS[1], 'mode')
  end
end
local out = {ttl, waiting(channel, beside(KEYS[1], 'wants')), token, size}
for i, field in ipairs(fields) do
  out[#out + 1] = string.sub(field, 1, size == 1 and i == 2 and 4096 or longest)
end
-- A user that takes no fair locks needs no permission for these keys. So they are no KEYS,
-- and an error means that there is no queue.
local members = ARGV[3] and not large(ARGV[3], 1) and redis.pcall('LRANGE', ARGV[3], 0, most - 1) or {}
if #members > 0 then
  local clock, queue = redis.call('TIME'), {}
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  for _, member in ipairs(members) do
    local deadline = redis.pcall('ZSCORE', ARGV[4], member)
    queue[#queue + 1] = string.sub(member, 1, longest)
    queue[#queue + 1] = (tonumber(type(deadline) == 'string' and deadline or nil) or now) - now
  end
  out[#out + 1] = queue
end
return out
