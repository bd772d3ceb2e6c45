import { errorChain } from '../../log/error-chain.ts'
import type { Fact } from '../../core/doctor/host-facts.ts'

/** Returns what `read` returns, or why it failed. */
export async function fact<T>(read: () => T | Promise<T>): Promise<Fact<T>> {
  try {
    return { known: true, value: await read() }
  } catch (error) {
    return { known: false, because: errorChain(error) }
  }
}
