// Attributes, items, slices and iteration: how Jinja reaches into values. Called by the evaluator, filters and methods.
#pragma once

#include <string_view>
#include <vector>

#include "text/jinja/callable.h"
#include "text/jinja/value.h"

namespace boreas::jinja {

// value.name: methods first, then keys, as Jinja does it; undefined if there is neither. `name` must outlive the
// render.
Value get_attribute(Budget& budget, const Value& object, std::string_view name);
// value[key]: items first, then methods.
Value get_item(Budget& budget, const Value& object, const Value& key);
// value[start:stop:step]; undefined parts are written as none.
Value get_slice(Budget& budget, const Value& object, const Value& start, const Value& stop, const Value& step);

// What a `for` walks over; raises if Python could not iterate. Using up an iterator marks it spent.
std::vector<Value> iterate(Budget& budget, const Value& value);
// len(); raises where Python does.
size_t length(Budget& budget, const Value& value);
// `item in container`
bool contains(Budget& budget, const Value& container, const Value& item);
// First byte offset of `wanted` at or behind `from` (<= text.size()), npos if there is none. Linear for every input:
// memmem, where string_view::find would be quadratic.
size_t find_text(Budget& budget, std::string_view text, std::string_view wanted, size_t from);
// str.replace; limit < 0 = all. str * count.
std::string replace_text(Budget& budget, std::string_view subject, std::string_view from, std::string_view to,
                         Int128 limit);
std::string repeat_text(Budget& budget, std::string_view unit, Int128 count);

Value make_list(Budget& budget, std::vector<Value> items, SequenceType type = SequenceType::kList);
Value make_pair(Budget& budget, const Value& first, const Value& second);
Value make_range(Budget& budget, Int128 start, Int128 stop, Int128 step);
// The dotted attribute path of map(attribute=...), sort(attribute=...) and the like; `otherwise` replaces what is
// undefined on the way.
Value get_path(Budget& budget, const Value& object, const Value& path, const Value* otherwise = nullptr);

}  // namespace boreas::jinja
