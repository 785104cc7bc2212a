local state = 42
local words = {}
for i = 1, 300000 do
  state = (state * 1103515245 + 12345) % 2147483648
  words[#words + 1] = "w" .. (state // 65536 % 5000)
end
local counts, n = {}, 0
for _, w in ipairs(words) do
  if counts[w] then counts[w] = counts[w] + 1 else counts[w] = 1; n = n + 1 end
end
local best = 0
for _, c in pairs(counts) do if c > best then best = c end end
print(n, best)
