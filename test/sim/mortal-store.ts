import type { Store } from '../../src/store/store.ts'
import type { Chaos } from './chaos.ts'

/** Thrown where the daemon died in the middle of its own code, which nothing can wait in; nobody is left to hear of it. */
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
])

/**
 * The store as one life of the daemon has it: that may die before and after each write and flush, and writes nothing and hears
 * nothing from then on. A write that a death cuts off in a transaction never was.
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
