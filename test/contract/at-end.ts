import type { TestContext } from 'node:test'

type Undo = () => unknown

const undosOf = new WeakMap<TestContext, Undo[]>()

/**
 * Undoes something when the test ends. All undos run, the newest first, even if some fail. Node skips the `t.after`
 * hooks behind one that throws, and the next test would then meet what those hooks should have removed.
 */
export function atEnd(t: TestContext, undo: Undo): void {
  const undos = undosOf.get(t)
  if (undos !== undefined) {
    undos.push(undo)
    return
  }
  const all = [undo]
  undosOf.set(t, all)
  t.after(() => undoAll(all))
}

/** Calls all undos, the last one first. Throws the error of one, or an AggregateError of several. */
export async function undoAll(undos: readonly Undo[]): Promise<void> {
  const errors: unknown[] = []
  for (const undo of undos.toReversed()) {
    try {
      await undo()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length === 1) throw errors[0]
  if (errors.length > 1)
    throw new AggregateError(
      errors,
      `cleaning up failed ${errors.length} times: ${errors.map(String).join('; ')}`,
    )
}
