#include "server/http_rules.h"

#include <algorithm>
#include <charconv>

namespace boreas {

namespace {

bool is_token_char(char c) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         kMarks.find(c) != std::string_view::npos;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

std::optional<HttpRefusal> HeaderScan::look(std::string_view bytes) {
  for (; header_bytes_ == 0 && scanned_ < bytes.size(); ++scanned_) {
    const char c = bytes[scanned_];
    if (scanned_ == line_start_ && lines_ == 0 && !is_token_char(c)) {
      return HttpRefusal{400, "This is not an HTTP request."};
    }
    if (scanned_ == line_start_ && lines_ > 0 && (c == ' ' || c == '\t')) {
      return HttpRefusal{400, "Folded header fields are not allowed."};
    }
    if (c != '\n') continue;
    if (scanned_ == line_start_ || bytes[scanned_ - 1] != '\r') {
      return HttpRefusal{400, "A header line ends without CR LF."};
    }
    if (scanned_ == line_start_ + 1) header_bytes_ = scanned_ + 1;
    line_start_ = scanned_ + 1;
    ++lines_;
  }
  // The request line and the empty line are no fields.
  if (lines_ - 1 - (header_bytes_ > 0 ? 1 : 0) > fields_max_) {
    return HttpRefusal{431, "The request has more than " + std::to_string(fields_max_) + " header fields."};
  }
  if ((header_bytes_ > 0 ? header_bytes_ : bytes.size()) > bytes_max_) {
    return HttpRefusal{431, "The request header is longer than " + std::to_string(bytes_max_) + " bytes."};
  }
  return std::nullopt;
}

std::optional<HttpRefusal> check_framing(const HttpFields& fields, int minor) {
  int hosts = 0;
  int lengths = 0;
  int encodings = 0;
  for (const HttpField& field : fields) {
    if (field.name == "host") ++hosts;
    if (field.name == "content-length") {
      ++lengths;
      const bool digits = !field.value.empty() && std::all_of(field.value.begin(), field.value.end(),
                                                              [](char c) { return c >= '0' && c <= '9'; });
      if (!digits) return HttpRefusal{400, "Content-Length is not one number."};
    }
    if (field.name == "transfer-encoding") {
      ++encodings;
      if (!equals_ignoring_case(field.value, "chunked")) {
        return HttpRefusal{400, "The only Transfer-Encoding understood is \"chunked\"."};
      }
    }
  }
  if (lengths > 1 || encodings > 1 || (lengths > 0 && encodings > 0)) {
    return HttpRefusal{400, "The length of the body is given more than once."};
  }
  if (encodings > 0 && minor == 0) return HttpRefusal{400, "HTTP/1.0 has no Transfer-Encoding."};
  if (hosts > 1 || (hosts == 0 && minor >= 1)) return HttpRefusal{400, "A request needs exactly one Host field."};
  return std::nullopt;
}

std::string_view target_path(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() || !equals_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const size_t slash = target.find('/', scheme.size());
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
    break;
  }
  return target.substr(0, target.find_first_of("?#"));
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || high * 16 + low == 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpRequest::field(std::string_view name) const {
  for (const HttpField& candidate : fields) {
    if (candidate.name == name) return candidate.value;
  }
  return {};
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

std::string response_head(int status, const HttpFields& fields, BodyFraming framing, size_t body_bytes,
                          bool keep_alive) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out += reason_phrase(status);
  out += "\r\n";
  for (const HttpField& field : fields) {
    if (has_control(field.value)) continue;
    out += field.name;
    out += ": ";
    out += field.value;
    out += "\r\n";
  }
  if (framing == BodyFraming::kLength) out += "Content-Length: " + std::to_string(body_bytes) + "\r\n";
  if (framing == BodyFraming::kChunked) out += "Transfer-Encoding: chunked\r\n";
  out += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

void append_chunk(std::string& out, std::string_view before, std::string_view data, std::string_view after) {
  char head[20];
  const auto end = std::to_chars(head, head + sizeof(head), before.size() + data.size() + after.size(), 16);
  out.append(head, static_cast<size_t>(end.ptr - head));
  out += "\r\n";
  out += before;
  out += data;
  out += after;
  out += "\r\n";
}

}  // namespace boreas
