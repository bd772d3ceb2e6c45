/** One guest of libvirt, as similar to one of ours as libvirt allows. */

/** Values from the monitor of our guest that libvirt's guest gets too. */
export type Twin = {
  readonly kvm: boolean
  /** Value of `-accel tcg,tb-size=`, in MiB. */
  readonly translationCacheMib: number
  readonly kernelPath: string
  readonly initrdPath: string
  readonly kernelArguments: string
  readonly seedPath: string
}

/** Reads these values from the monitor's command line, which must be that of an x86-64 guest with an initrd. */
export function readTwin(command: readonly string[]): Twin {
  const after = (option: string): string => {
    const value = command[command.indexOf(option) + 1]
    if (!command.includes(option) || value === undefined)
      throw new Error(`the monitor runs without ${option}`)
    return value
  }
  if (!after('-M').startsWith('microvm')) throw new Error('libvirt is compared on x86-64 alone')
  const seed = command.find((word) => word.includes('node-name=seed-file'))
  return {
    kvm: after('-accel').startsWith('kvm'),
    translationCacheMib: Number(/tb-size=(\d+)/.exec(after('-accel'))?.[1] ?? 0),
    kernelPath: after('-kernel'),
    initrdPath: after('-initrd'),
    kernelArguments: after('-append'),
    seedPath: /filename=([^,]+)/.exec(seed ?? '')?.[1] ?? '',
  }
}

/** The board: ours, or libvirt's default with PCI Express. */
export type Board = 'microvm' | 'q35'

export type DomainOptions = {
  readonly name: string
  readonly board: Board
  readonly twin: Twin
  readonly memoryMib: number
  readonly diskPath: string
  readonly seedPath: string
  readonly tap?: { readonly device: string; readonly macAddress: string }
}

/**
 * Renders domain XML (https://libvirt.org/formatdomain.html). libvirt knows the board `microvm` but not its PCI
 * Express. So `pcie=on` is passed to QEMU directly, and its devices get the addresses that QEMU gives ours.
 */
export function renderDomain(options: DomainOptions): string {
  const { name, board, twin, memoryMib, diskPath, seedPath, tap } = options
  const address = (slot: number): string =>
    board === 'microvm' ? `<address type='pci' domain='0' bus='0' slot='${slot}' function='0'/>` : ''
  return `<domain type='${twin.kvm ? 'kvm' : 'qemu'}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>${name}</name>
  <memory unit='MiB'>${memoryMib}</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='${board}'>hvm</type>
    <kernel>${twin.kernelPath}</kernel>
    <initrd>${twin.initrdPath}</initrd>
    <cmdline>${escaped(twin.kernelArguments)}</cmdline>
  </os>
  <features><acpi/>${renderCache(twin)}</features>
  <cpu mode='${twin.kvm ? 'host-passthrough' : 'maximum'}'/>
  <on_reboot>destroy</on_reboot>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='usb' model='none'/>
    <serial type='pty'/>
    ${renderDisk({ path: diskPath, target: 'vda', driver: " discard='unmap'", inside: address(1) })}
    ${renderDisk({ path: seedPath, target: 'vdb', driver: '', inside: `<readonly/>${address(2)}` })}
    ${tap === undefined ? '' : renderInterface(tap, address(3))}
    <memballoon model='none'/>
    <rng model='virtio-non-transitional'><backend model='builtin'/>${address(4)}</rng>
  </devices>
  ${board === 'microvm' ? "<qemu:commandline><qemu:arg value='-machine'/><qemu:arg value='pcie=on'/></qemu:commandline>" : ''}
</domain>`
}

const renderCache = ({ kvm, translationCacheMib }: Twin): string =>
  kvm || translationCacheMib === 0 ? '' : `<tcg><tb-cache unit='MiB'>${translationCacheMib}</tb-cache></tcg>`

type Disk = {
  readonly path: string
  readonly target: string
  readonly driver: string
  readonly inside: string
}

const renderDisk = ({ path, target, driver, inside }: Disk): string =>
  `<disk type='file' device='disk' model='virtio-non-transitional'>
      <driver name='qemu' type='raw' cache='none' io='threads'${driver}/>
      <source file='${path}'/><target dev='${target}' bus='virtio'/>${inside}
    </disk>`

/** Renders an existing tap, which libvirt does not configure. */
const renderInterface = ({ device, macAddress }: { device: string; macAddress: string }, address: string) =>
  `<interface type='ethernet'>
      <mac address='${macAddress}'/><target dev='${device}' managed='no'/>
      <model type='virtio-non-transitional'/><driver name='qemu'/><rom bar='off'/>${address}
    </interface>`

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
