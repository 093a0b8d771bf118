// compile = lower + place + verify: see compile.h.
#include "program/compile.h"

namespace boreas {

Result<Program> compile(const ModelConfig& config, const DeviceSpec& device, int32_t rows_max) {
  ASSIGN_OR_RETURN(Program program, place(lower(config, rows_max), device, rows_max));
  const Verdict verdict = verify(program);
  if (!verdict.ok) return Error{"the program does not verify: " + verdict.problem};
  return program;
}

}  // namespace boreas
