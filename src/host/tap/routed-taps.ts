import { constants } from 'node:os'
import { HostFault } from '../../core/errors.ts'
import { assert } from '../../lib/assert.ts'
import { run } from '../exec/exec.ts'
import { ErrnoError, hasErrno } from '../ffi/errno-error.ts'
import { Rtnetlink } from '../netlink/rtnetlink.ts'
import { createTap } from './create-tap.ts'
import { ipBatch } from './ip-batch.ts'
import { formatTapMark, parseTapMark } from './tap-mark.ts'
import { applySettings, tapSettings } from './tap-settings.ts'
import type { TapFacts, TapSpec, TapState } from '../../core/network/tap.ts'
import type { DeviceName, UserId, VmId } from '../../core/vm/ids.ts'
import type { Taps } from '../../ports/network.ts'
import type { Link } from '../netlink/route-codec.ts'

/**
 * One routed tap a VM, in the network namespace of the daemon. The host side has the gateway's addresses; the guest's
 * addresses are routed to the device and have permanent neighbours, which no packet of a guest can change and which let
 * the first packet to a sleeping guest out (no ARP or neighbour discovery comes before it).
 *
 * A tap is ours by its interface alias alone. A device of a VM's name without that VM's mark is never touched.
 */
export class RoutedTaps implements Taps {
  readonly #storeId: string
  readonly #links = new Rtnetlink()

  /** @param storeId tells our taps from those of another daemon; without colons and blanks */
  constructor({ storeId }: { readonly storeId: string }) {
    assert(/^[^:\s]+$/.test(storeId), 'a store id stands in an interface alias')
    this.#storeId = storeId
  }

  async inspect(device: DeviceName, id: VmId, userId: UserId): Promise<TapState> {
    try {
      return this.#read(device, id, userId)
    } catch (error) {
      throw failed(`inspecting tap ${device} of VM ${id}`, error)
    }
  }

  async ensure(spec: TapSpec): Promise<void> {
    const { device, vmId, userId } = spec
    try {
      if (this.#ours(spec).kind === 'absent') {
        createTap(this.#links, { device, userId, mark: this.#mark(vmId) })
      }
      await applySettings(tapSettings(spec))
      const state = this.#ours(spec)
      if (state.kind === 'absent') throw new ErrnoError(`find tap ${device}`, constants.errno.ENODEV)
      await runIp(ipBatch(spec, state.facts))
    } catch (error) {
      throw failed(`setting up tap ${device} of VM ${vmId} for user ${userId}`, error)
    }
  }

  async remove(device: DeviceName, id: VmId): Promise<void> {
    try {
      const mine = (): boolean => {
        const link = this.#links.link(device)
        return link?.tap !== undefined && link.alias === this.#mark(id)
      }
      if (!mine()) return
      // A program, since the kernel waits for packets in flight meanwhile: tens of milliseconds.
      await runIp([`link del dev ${device}`]).catch((error: unknown) => {
        if (mine()) throw error
      })
    } catch (error) {
      throw failed(`removing tap ${device} of VM ${id}`, error)
    }
  }

  async list(): Promise<
    readonly { readonly device: DeviceName; readonly id: VmId; readonly storeId: string }[]
  > {
    try {
      return this.#links.links('tun').flatMap(({ name, alias, tap }) => {
        const mark = parseTapMark(alias ?? '')
        return mark === undefined || tap === undefined ? [] : [{ device: name as DeviceName, ...mark }]
      })
    } catch (error) {
      throw failed('listing taps', error)
    }
  }

  close(): void {
    this.#links.close()
  }

  #mark(id: VmId): string {
    return formatTapMark({ storeId: this.#storeId, id })
  }

  #read(device: DeviceName, id: VmId, userId: UserId): TapState {
    const link = this.#links.link(device)
    if (link === undefined) return { kind: 'absent' }
    const because = foreignness(link, this.#mark(id), userId)
    if (because !== undefined) return { kind: 'foreign', because }
    try {
      return { kind: 'present', facts: this.#facts(link) }
    } catch (error) {
      // It went between two reads.
      if (hasErrno(error, 'ENODEV')) return { kind: 'absent' }
      throw error
    }
  }

  #facts({ index, up }: Link): TapFacts {
    return {
      up,
      addresses: this.#links.addresses(index),
      routes: this.#links.routes(index),
      neighbours: this.#links.permanentNeighbours(index),
    }
  }

  /** Throws `tap_name_taken` for a device that is not this VM's. */
  #ours({ device, vmId, userId }: TapSpec): Exclude<TapState, { kind: 'foreign' }> {
    const state = this.#read(device, vmId, userId)
    if (state.kind !== 'foreign') return state
    throw new HostFault('tap_name_taken', `setting up tap ${device} of VM ${vmId}: ${state.because}`)
  }
}

function foreignness({ kind, tap, alias }: Link, mark: string, userId: UserId): string | undefined {
  if (tap === undefined)
    return kind === undefined ? 'it is a hardware device' : `it is a ${kind} device and no tap`
  if (alias === undefined) return 'it is a tap without the mark of vmhostd'
  if (alias !== mark) return `its alias is ${JSON.stringify(alias)} and not ${mark}`
  if (tap.owner !== userId)
    return `it belongs to ${tap.owner === undefined ? 'no user' : `user ${tap.owner}`}`
  return undefined
}

async function runIp(commands: readonly string[]): Promise<void> {
  if (commands.length > 0) await run(['ip', '-batch', '-'], { input: `${commands.join('\n')}\n` })
}

function failed(doing: string, error: unknown): HostFault {
  if (error instanceof HostFault) return error
  const retry = hasErrno(error, 'EINTR', 'EAGAIN', 'EBUSY', 'ENODEV') ? { retry: 'soon' as const } : {}
  return new HostFault('network_failed', doing, { cause: error, ...retry })
}
