-- fair_release.lua gives a lock up, removes places that are over, and serves who
-- is first. Keys and arguments: see fair.lua.
--
-- Returns {1}       released
--         {0}       the record carries none of these holders
-- with an error text as another element if PUBLISH failed, or if the queue
-- can't be used. A script that gives up no holder fails instead, if places may not leave.
--
-- It serves also if the record has ended with its lease: no message tells of that. A place that
-- leaves may have been granted by message.
--
-- Safe to repeat: the second run finds no record. Deleting comes first: it works
-- when the server is out of memory, and nothing after it can undo it.
local ours = carries(others) or carries(leaving)
if ours then
  redis.call('DEL', lock)
end
if broken then
  return {ours and 1 or 0, broken.err}
end
-- The lock is free by now, so an error no longer says that it is not.
local done, told = pcall(function()
  note()
  clean()
  remember()
  expire()
  return (ours or redis.call('EXISTS', lock) == 0) and serve()
end)
if not done and #others == 0 then -- only places leave: they are still there
  error(told, 0)
end
if type(told) == 'table' then
  told = told.err
elseif done then
  return {ours and 1 or 0}
end
return {ours and 1 or 0, told}
