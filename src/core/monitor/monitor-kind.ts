/**
 * The program family that runs a VM. It is chosen when the VM is created and never changes, because neither can read
 * the memory that the other saved.
 */
export const MONITOR_KINDS = ['qemu', 'firecracker'] as const

export type MonitorKind = (typeof MONITOR_KINDS)[number]
