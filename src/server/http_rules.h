// The parts of HTTP that need no socket: what is refused before the parser proper sees it, and how an answer's head
// looks. Called by http_server.cc and routes.cc; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"

namespace boreas {

struct HttpRefusal {
  int status = 400;
  std::string message;
};

// Looks at a request header that arrives in pieces.
class HeaderScan {
 public:
  HeaderScan(size_t bytes_max, int32_t fields_max) : bytes_max_(bytes_max), fields_max_(fields_max) {}

  // `bytes`: all bytes of the header received so far (longer at each call). Sets header_bytes once the empty line has
  // come. A refusal: bare LF, a folded field, a first byte no method begins with, too long, too many fields.
  std::optional<HttpRefusal> look(std::string_view bytes);
  // Length of the header up to and with the empty line; 0 while it is incomplete.
  size_t header_bytes() const { return header_bytes_; }

 private:
  size_t bytes_max_;
  int32_t fields_max_;
  size_t scanned_ = 0;
  size_t line_start_ = 0;
  int32_t lines_ = 0;
  size_t header_bytes_ = 0;
};

// Whether these fields frame a body in exactly one way. `minor` is the HTTP/1.x version.
std::optional<HttpRefusal> check_framing(const HttpFields& fields, int minor);

// Splits a request target (origin, absolute or asterisk form) to its path, query dropped.
std::string_view target_path(std::string_view target);
// Percent-decodes; nullopt for broken escapes and NUL.
std::optional<std::string> percent_decode(std::string_view text);

bool equals_ignoring_case(std::string_view a, std::string_view b);
std::string_view reason_phrase(int status);

enum class BodyFraming : uint8_t { kLength, kChunked, kUntilClose, kNone };
// Status line and fields with the empty line. Fields whose value holds control characters are left out.
std::string response_head(int status, const HttpFields& fields, BodyFraming framing, size_t body_bytes,
                          bool keep_alive);

// One chunk of a chunked body.
void append_chunk(std::string& out, std::string_view before, std::string_view data, std::string_view after);

}  // namespace boreas
