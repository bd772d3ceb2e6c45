/** Bounds of the processes of monitors, and of the try of KVM; a part of `limits`. */
export const monitorLimits = {
  /** Memory that a QEMU process may use besides the guest's: code, heap, I/O buffers, stacks. */
  qemuOverheadMib: 128,
  /** Translated code that emulation keeps; QEMU's own default grows to 1 GiB for each guest. */
  qemuTcgCacheMib: 128,
  /** Threads of a QEMU process besides its vCPUs: at most 64 for disk I/O, and a few of its own. */
  qemuExtraTasks: 96,
  /** A 32-vCPU guest has some 300: two for each queue of each device. */
  qemuOpenFiles: 1024,
  /**
   * Memory that a Firecracker process may use besides the guest's: it has 4 MiB, and most of the rest is for its log
   * and for devices that are being saved.
   */
  firecrackerOverheadMib: 32,
  /** Threads of a Firecracker process besides its vCPUs: its main loop, its API, and what a kernel adds for KVM. */
  firecrackerExtraTasks: 16,
  firecrackerOpenFiles: 1024,
  /** A guest's metadata as JSON: user data and keys of the longest request, and the rest. */
  firecrackerMetadataBytesMax: 2 * 1024 * 1024,
  /** One answer of its API; a configuration is below 8 KiB. */
  firecrackerAnswerBytesMax: 256 * 1024,
  /** Its devices and vCPUs in a saved guest: 25 KiB for one vCPU. */
  firecrackerStateBytesMax: 16 * 1024 * 1024,
  /**
   * Space and files in the runtime directories of all monitors: sockets, configurations,
   * and devices of restored guests.
   */
  monitorRuntimeMib: 64,
  monitorRuntimeFilesMax: 65_536,
  /**
   * Looks at a VM that its monitor can cause, by what it reports or does to its tap: at once, and then one in each such
   * time. A start, a sleep or a wake causes a few. A monitor that its guest took over could cause them without end.
   */
  monitorLooksBurst: 30,
  monitorLookEveryMs: 5000,
  /**
   * Lines that a monitor may write to the journal in each such time; journald takes up to some six times as many, by
   * the space that is free. A start that fails writes a few. A guest can make QEMU write 10,000 in a second, and a line
   * may have 48 KiB. They would push the audit trail out of the journal.
   */
  monitorLogLinesBurst: 20,
  monitorLogLinesMs: 60_000,
  /**
   * The shortest and the longest time between two looks for the socket of a monitor that starts. It comes after 10 to
   * 60 ms, and a guest that wakes waits for it.
   */
  monitorSocketLookMsMin: 1,
  monitorSocketLookMsMax: 20,
  /** Until an agent in the guest takes a connection; Firecracker itself gives up after as long. */
  vsockConnectMs: 2000,

  /**
   * Instructions per second, in a loop: below it, KVM emulates the processor (1.4 million were seen), and QEMU's own
   * emulation is faster. A processor runs some thousand million. The start and end of a try take 0.1 ms, so that a fast
   * one looks like some 40 million.
   */
  kvmInstructionsPerSecondMin: 5_000_000,
  /** Tries of that loop at most; the fastest counts, and the first that is fast enough is the last. */
  kvmTries: 5,
  /** Until a try counts as failed. An emulated one takes some 4 ms. */
  kvmTryMs: 2000,
} as const
