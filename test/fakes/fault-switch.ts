import { abortable } from '../../src/lib/abortable.ts'

/** `before`: the effect did not happen. `after`: the effect happened, and the caller got an error. */
export type FaultMoment = 'before' | 'after'

type Planned<Method> =
  | {
      readonly method: Method
      readonly kind: 'fault'
      readonly fault: Error
      readonly moment: FaultMoment
    }
  | { readonly method: Method; readonly kind: 'hold'; readonly released: Promise<void> }

const never = new AbortController().signal

/** Faults and waits that a test plans for a fake's methods; one call uses up each. */
export class FaultSwitch<Method extends string> {
  readonly #planned: Planned<Method>[] = []

  /** Lets the next call of a method fail: with a HostFault, or with any other error as if by a bug. */
  failNext(method: Method, fault: Error, moment: FaultMoment = 'before'): void {
    this.#planned.push({ method, kind: 'fault', fault, moment })
  }

  /** Lets the next call of a method wait, before it does anything, until it is released or aborted. */
  holdNext(method: Method): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#planned.push({ method, kind: 'hold', released: promise })
    return resolve
  }

  /** Runs a method's effect, with the fault or wait that was planned for it. */
  async run<T>(method: Method, effect: () => T | Promise<T>, signal: AbortSignal = never): Promise<T> {
    // A real driver never answers within the same turn.
    await Promise.resolve()
    const index = this.#planned.findIndex((planned) => planned.method === method)
    const planned = index === -1 ? undefined : this.#planned.splice(index, 1)[0]
    if (planned?.kind === 'hold') await abortable(planned.released, signal)
    signal.throwIfAborted()
    if (planned?.kind !== 'fault') return effect()
    if (planned.moment === 'after') await effect()
    throw planned.fault
  }
}
