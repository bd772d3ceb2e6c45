import { DEBIAN_IMAGE, UBUNTU_IMAGE } from './stand-ins.ts'

/** The scripts of docs/images.md, each from blocks in the order in which a reader runs them. */
export type Recipes = {
  readonly debian: string
  readonly ubuntu: string
  readonly containerfile: string
  readonly container: string
  readonly vmlinux: string
  /** On the host of the VMs. */
  readonly place: string
  readonly check: string
  readonly boot: string
  readonly sleep: string
  readonly stop: string
  readonly inGuest: string
}

/** Composes the scripts. `block` joins blocks of the page. */
export function recipesFrom(block: (...names: readonly string[]) => string): Recipes {
  const rest = ['kernel', 'fstab', 'shrink']
  return {
    debian: block('cloud image', 'partition', ...rest),
    ubuntu: block('cloud image', 'partition', 'boot partition', ...rest).replace(DEBIAN_IMAGE, UBUNTU_IMAGE),
    containerfile: block('Containerfile'),
    container: block('build', 'tree', 'file system'),
    vmlinux: block('vmlinux'),
    place: block('on the host'),
    check: block('check'),
    boot: block('boot'),
    sleep: block('sleep'),
    stop: block('stop'),
    inGuest: block('in the guest'),
  }
}
