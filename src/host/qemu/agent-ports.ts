import { MonitorRefusal } from '../monitors/monitor-error.ts'
import { isAgentOpen } from './qemu-answers.ts'
import { AGENT_DEVICE } from '../../core/monitor/qemu-save.ts'
import type { VmId } from '../../core/ids.ts'
import type { QmpClient, QmpEvent } from './qmp.ts'

/**
 * Remembers whether guests have their agent's port open. QEMU is asked once for each connection, and reports changes
 * from then on (QEMU QMP Reference Manual, VSERPORT_CHANGE). It reports none for a guest that an older vmhostd started:
 * there the port has no name.
 */
export class AgentPorts {
  readonly #open = new Map<VmId, boolean>()
  /** The newest question about each guest. An event that comes meanwhile is newer than its answer. */
  readonly #asking = new Map<VmId, symbol>()

  /** Returns undefined if QEMU must be asked. */
  known(id: VmId): boolean | undefined {
    return this.#open.get(id)
  }

  /** Asks QEMU. Throws as {@link isAgentOpen} does. */
  async ask(id: VmId, client: QmpClient): Promise<boolean> {
    const question = Symbol(id)
    this.#asking.set(id, question)
    try {
      const [isOpen, reports] = await Promise.all([isAgentOpen(client), hasNamedPort(client)])
      if (reports && this.#asking.get(id) === question) this.#open.set(id, isOpen)
      return isOpen
    } finally {
      if (this.#asking.get(id) === question) this.#asking.delete(id)
    }
  }

  /** Takes an event of a guest's monitor. After any but a report, such as a reset of the guest, QEMU is asked again. */
  take(id: VmId, { event, data }: QmpEvent): void {
    this.forget(id)
    const { id: device, open } = (data ?? {}) as { readonly id?: unknown; readonly open?: unknown }
    if (event === 'VSERPORT_CHANGE' && device === AGENT_DEVICE && typeof open === 'boolean')
      this.#open.set(id, open)
  }

  /** Forgets what is known of a guest, because the connection to its monitor has ended. */
  forget(id: VmId): void {
    this.#open.delete(id)
    this.#asking.delete(id)
  }
}

/** Asks whether the agent's port has a name (QEMU QMP Reference Manual, qom-list). */
async function hasNamedPort(client: QmpClient): Promise<boolean> {
  try {
    await client.execute('qom-list', { path: `/machine/peripheral/${AGENT_DEVICE}` })
    return true
  } catch (error) {
    if (error instanceof MonitorRefusal) return false
    throw error
  }
}
