import { limits } from '../../config/limits.ts'

/** A page table entry has 8 bytes for each page of 4 KiB; the host keeps one table and the second stage another. */
const GUEST_MIB_A_PAGE_TABLE_MIB = 256

/** What a QEMU process may use besides its guest's memory, in MiB: what its unit may have, and what the ledger counts. */
export function qemuMemoryMib(guestMib: number, accelerator: 'kvm' | 'tcg'): number {
  const pageTables = Math.ceil(guestMib / GUEST_MIB_A_PAGE_TABLE_MIB)
  return pageTables + limits.qemuOverheadMib + (accelerator === 'tcg' ? limits.qemuTcgCacheMib : 0)
}
