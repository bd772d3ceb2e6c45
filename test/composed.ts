import { parseConfig } from '../src/config/config.ts'
import { compose } from '../src/daemon/compose.ts'
import { silentLog } from '../src/log/log.ts'
import { FakeFigures } from './fakes/fake-figures.ts'
import { FakeGuestProbes } from './fakes/fake-guest-probes.ts'
import { FakeGuestShells } from './fakes/fake-guest-shells.ts'
import type { CommandContext } from '../src/commands/context.ts'
import type { Composition, Parts, Settings } from '../src/daemon/compose.ts'
import type { OperationId } from '../src/core/ids.ts'

const defaults = parseConfig('', { path: 'the defaults', hostname: 'host-1' })

/** Returns the defaults of a configuration file, with changes in its tables. */
export function settingsWith(
  changes: { readonly [T in keyof Settings]?: Partial<Settings[T]> } = {},
): Settings {
  const table = <T extends keyof Settings>(name: T): Settings[T] => ({ ...defaults[name], ...changes[name] })
  return {
    host: table('host'),
    network: table('network'),
    objectStore: table('objectStore'),
    storage: table('storage'),
    snapshots: table('snapshots'),
    capacity: table('capacity'),
    coordination: table('coordination'),
  }
}

/** Replaces the owners that act on stored changes: records their calls, and does nothing. */
export const listening = (
  note: (line: string) => void,
): Pick<CommandContext, 'poke' | 'notice' | 'pokeHost' | 'pokeSnapshot'> => ({
  poke: (id, reason) => note(`${id}: ${reason}`),
  notice: (id, reason) => note(`${id} noticed: ${reason}`),
  pokeHost: (reason) => note(`host: ${reason}`),
  pokeSnapshot: (id, { reason }) => note(`snapshot ${id}: ${reason}`),
})

/**
 * Composes the daemon on a host and a store of the test, wired like the real one; other parts are fakes unless given.
 */
export function composed(parts: Pick<Parts, 'host' | 'store'> & Partial<Parts>): Composition {
  let operations = 0
  return compose({
    figures: new FakeFigures(),
    shells: new FakeGuestShells(),
    probes: new FakeGuestProbes(),
    isDescriptorStoreAvailable: async () => true,
    settings: settingsWith(),
    readiness: { waitingFor: () => [], takesCommands: () => true },
    newOperationId: () => `op-${(operations += 1)}` as OperationId,
    version: '1.2.3',
    log: silentLog,
    ...parts,
  })
}
