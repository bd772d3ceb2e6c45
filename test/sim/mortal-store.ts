import type { Store } from '../../src/store/store.ts'
import type { Chaos } from './chaos.ts'

/** Thrown if the daemon dies in the middle of its own synchronous code; no caller is left to handle it. */
class Died extends Error {}

const WRITES = new Set([
  'advance',
  'addPart',
  'setEtag',
  'shed',
  'dropUrls',
  'touch',
  'note',
  'forget',
  'transaction',
  'set',
  'lend',
  'end',
  'want',
  'leave',
])

/**
 * The store as one life of the daemon has it. That life may die before and after each write and flush; afterwards it
 * writes and hears nothing. A death inside a transaction undoes its writes.
 */
export function mortalStore(store: Store, chaos: Chaos): Store {
  const around = <T extends object>(table: T): T =>
    new Proxy(table, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        return (...args: unknown[]): unknown => {
          const writes = WRITES.has(String(name))
          if (writes && chaos.moment()) throw new Died()
          const result: unknown = Reflect.apply(member, target, args)
          if (writes && chaos.moment()) throw new Died()
          return result
        }
      },
    })
  const mortal: Partial<Store> = {
    snapshots: around(store.snapshots),
    frozenGuests: around(store.frozenGuests),
    arrivals: around(store.arrivals),
    departures: around(store.departures),
    memoryLoans: around(store.memoryLoans),
    transaction: (write) => {
      if (chaos.moment()) throw new Died()
      const result = store.transaction(write)
      if (chaos.moment()) throw new Died()
      return result
    },
    flushed: async () => {
      await store.flushed()
      if (chaos.moment()) await new Promise(() => {})
    },
    onVmChange: (listener) => store.onVmChange((id) => void (chaos.dead || listener(id))),
  }
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(name in mortal ? mortal : target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}
