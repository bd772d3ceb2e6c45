import { faults, rejections } from '../../core/problems/catalogue.ts'
import { isRejection, problemOf, problemOfUnknown } from './problem.ts'
import type { ProblemCode } from '../../core/errors.ts'
import type { Problem } from './problem.ts'

const REQUEST_ID = 'req-1f0c5a9be3d24c77'

/** The finding in the example of a malformed request. */
const FINDING = {
  pointer: '/compute/cpu_millicores',
  code: 'out_of_range',
  detail: 'must be between 100 and 32000',
}

/** Returns a whole answer with this code, made from the example in the catalogue. */
export function exampleOf(code: ProblemCode): Problem {
  if (!isRejection(code)) {
    const { retry, example: message } = faults[code]
    return problemOfUnknown({ code, retry, message }, REQUEST_ID)
  }
  const errors = code === 'invalid_request' ? { errors: [FINDING] } : {}
  return problemOf({ code, detail: rejections[code].example, ...errors }, REQUEST_ID)
}
