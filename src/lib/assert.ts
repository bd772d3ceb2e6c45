/** A broken promise of our own code: a bug, never bad input or a host fault. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError'
}

/** Throws {@link InvariantError} unless `condition` holds. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InvariantError(message)
}

/** Closes a `switch` over a union: a new member that is not handled does not compile. */
export function unreachable(value: never): never {
  throw new InvariantError(`unhandled case: ${JSON.stringify(value)}`)
}
