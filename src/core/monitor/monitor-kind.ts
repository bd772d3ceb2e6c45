/**
 * The program family that runs a VM. It is chosen when the VM is created and never changes, because neither can read
 * the memory that the other saved.
 */
export const MONITOR_KINDS = ['qemu', 'firecracker'] as const

export type MonitorKind = (typeof MONITOR_KINDS)[number]

/**
 * The most saved states of one guest that take room in the pool at once. Firecracker maps the file that it restored a
 * guest from, so its space is free only when the process ends, and by then the guest may be saved again.
 */
export const SAVED_STATES_MAX: { readonly [K in MonitorKind]: number } = { qemu: 1, firecracker: 2 }

/** Whether the memory of a restored guest is pages of the saved file, until the guest writes to them. */
export const MAPS_SAVED_MEMORY: { readonly [K in MonitorKind]: boolean } = { qemu: false, firecracker: true }
