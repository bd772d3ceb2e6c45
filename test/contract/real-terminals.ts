import assert from 'node:assert/strict'
import { TerminalGuest } from './terminal-guest.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { AskedConsoles, ConsolesStage } from './consoles-stage.ts'

type GuestSide = Pick<ConsolesStage, 'say' | 'readInput' | 'typed' | 'window'>

/** The guests' side of consoles that are ptys of this host; `close` ends them. */
export function realTerminals(consoles: () => AskedConsoles): GuestSide & { close(): void } {
  const guests = new Map<string, { guest: TerminalGuest; reading: boolean }>()
  const on = async (id: VmId): Promise<{ guest: TerminalGuest; reading: boolean }> => {
    const state = await consoles().inspect(id)
    assert.equal(state.kind, 'stored')
    const known = guests.get(state.ptsPath) ?? { guest: new TerminalGuest(state.ptsPath), reading: false }
    guests.set(state.ptsPath, known)
    return known
  }
  return {
    say: async (id, text) => (await on(id)).guest.say(text),
    readInput: async (id, reading) => {
      ;(await on(id)).reading = reading
    },
    typed: async (id) => {
      const { guest, reading } = await on(id)
      return reading ? guest.typed() : ''
    },
    window: async (id) => (await on(id)).guest.window(),
    close: () => {
      for (const { guest } of guests.values()) guest.close()
    },
  }
}
