import { limits } from '../../config/limits.ts'

/** A page table entry takes 8 bytes for each page of 4 KiB. The host keeps one table and the second stage another. */
const GUEST_MIB_A_PAGE_TABLE_MIB = 256

/**
 * Returns the memory in MiB that a QEMU process may use besides its guest's: its unit may have it, and the ledger
 * counts it.
 */
export function qemuMemoryMib(guestMib: number, accelerator: 'kvm' | 'tcg'): number {
  const pageTables = Math.ceil(guestMib / GUEST_MIB_A_PAGE_TABLE_MIB)
  return pageTables + limits.qemuOverheadMib + (accelerator === 'tcg' ? limits.qemuTcgCacheMib : 0)
}
