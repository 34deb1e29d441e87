-- readwrite_release.lua gives up this manager's entry of a read-write lock, and tells those who wait.
--
-- KEYS[1]   lock
-- ARGV[1]   "manager id" of a manager that leaves the line with this script; or what the manager wants of the
--           line, if it joins the line behind others, for a writer; or "force": somebody else removes the holders,
--           and their managers are told; or empty: see line.lua
-- ARGV[2]   the prefix of the readers' keys
-- ARGV[3..] every holder of this manager that the record may carry, maybe none
-- ARGV[n]   the last: channel
--
-- Returns nil         the record carries none of these holders
--         integer     released; how many clients subscribe that stand in no line
--         bulk string released, but the message could not be published: why
--         array       released. One element: others still read, so nothing is free; the number as
--                     above, or -1 when the server would not say. After "force" there was a message, and the
--                     element is the number or the text as above. Two elements: the number or the text as
--                     above, and 1: a manager of the line was told; or 2: this manager has joined the line, too
--
-- Safe to repeat: the second run returns nil. The line is served also if the record has ended with its
-- lease: no message tells of that.
local key, prefix, channel, lastHolder = KEYS[1], ARGV[2], ARGV[#ARGV], #ARGV - 1
local line = redis.pcall('EXISTS', beside(key, 'line')) ~= 0 and theLine() -- or an error: it may be at the other master

if line and string.find(ARGV[1], '^%S+ %d+$') then
  pcall(line.depart, key, ARGV[1]) -- before what fails on a key of another type
end

local released, wrote, left = giveUp(key, prefix, 3, lastHolder)
if not released then
  forget(prefix, 3, lastHolder)
  if line then
    pcall(line.serve, key)
  end
  return false
end
local ok, turn, given = true, nil, nil
if line and wrote and ARGV[1] ~= 'force' then
  ok, turn, given = pcall(line.serveAfter, ARGV[3], key)
elseif line then
  ok, turn, given = pcall(line.serve, key)
end
if ARGV[1] == 'force' then
  -- The managers of the removed holders check the record, as if the line was not served.
  local reached = publish(channel, wrote and '001' or '000')
  return left and {reached} or reached
end
if left and not wrote then
  return {outsiders(channel) or -1}
end
-- After a grant nobody needs to know.
local reached = ok and given and 0 or publish(channel, (ok and '0' or '00') .. (wrote and '1' or '0'))
return ok and turn and {reached, line.joinBehind(key, ARGV[1])} or reached
