local function map(xs, f) local out = {} for i, x in ipairs(xs) do out[i] = f(x) end return out end
local function filter(xs, f) local out = {} for _, x in ipairs(xs) do if f(x) then out[#out + 1] = x end end return out end
local function reduce(xs, f, a) for _, x in ipairs(xs) do a = f(a, x) end return a end
local xs = {}
for i = 0, 199999 do xs[#xs + 1] = i end
local total = 0
for round = 1, 10 do
  total = total + reduce(filter(map(xs, function(x) return x * 3 end), function(x) return x % 2 == 0 end), function(a, x) return a + x end, 0)
end
print(total)
