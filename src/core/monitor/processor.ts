/** The processor that a guest sees. Its memory can be restored only on one that has all of it. */
export type Processor = {
  /** As `/proc/cpuinfo` names it, e.g. `GenuineIntel`; `emulated` if the monitor emulates it. */
  readonly vendor: string
  /** In no order; empty if the monitor emulates it. */
  readonly features: readonly string[]
}

/** With emulation the guest's processor depends on the monitor alone. */
export const EMULATED: Processor = { vendor: 'emulated', features: [] }

/**
 * Returns the host's processor from the text of /proc/cpuinfo (proc_cpuinfo(5)). The names differ between x86 and
 * arm64. Some features are the kernel's and not the processor's, so hosts with other kernels may count as different
 * although the guest would see no difference.
 */
export function processorOf(cpuinfo: string): Processor {
  const valueOf = (name: string): string | undefined =>
    new RegExp(`^(?:${name})[ \\t]*: (.*)$`, 'm').exec(cpuinfo)?.[1]?.trim()
  const features = valueOf('flags|Features')?.split(/\s+/) ?? []
  return { vendor: valueOf('vendor_id|CPU implementer') ?? 'unknown', features }
}
