import { HostFault } from '../core/errors.ts'
import type { MonitorCapabilities } from '../core/monitor/machine-spec.ts'
import type { Monitor } from '../ports/monitor.ts'

/** A monitor that this build cannot drive. Its VMs fail with `monitor_missing`, and never start. */
export class AbsentMonitor implements Monitor {
  readonly #name: string
  readonly capabilities: MonitorCapabilities = {
    startPaused: false,
    growDiskOnline: false,
    pausesWhenFull: false,
    save: false,
    vcpusMax: 32,
  }

  constructor(name: string) {
    this.#name = name
  }

  memoryMib(_guestMib: number): number {
    return 0
  }

  unitSpec(): never {
    throw this.#fault()
  }

  inspect = (): Promise<never> => this.#fail()
  ensureRunning = (): Promise<never> => this.#fail()
  ensurePaused = (): Promise<never> => this.#fail()
  ensureDiskSize = (): Promise<never> => this.#fail()
  ensureDiskLimits = (): Promise<never> => this.#fail()
  installed = (): Promise<never> => this.#fail()
  processor = (): Promise<never> => this.#fail()
  save = (): Promise<never> => this.#fail()
  ensureRestored = (): Promise<never> => this.#fail()
  diskCounters = (): Promise<never> => this.#fail()

  /** Does nothing: no guest runs. */
  setGuestTime(): void {}

  async freezeFileSystems(): Promise<'none'> {
    return 'none'
  }

  async thawFileSystems(): Promise<boolean> {
    return true
  }

  /** Never calls back: no guest runs. */
  watch(): void {}

  async #fail(): Promise<never> {
    throw this.#fault()
  }

  #fault(): HostFault {
    return new HostFault('monitor_missing', `this build of vmhostd does not run VMs with ${this.#name}`)
  }
}
