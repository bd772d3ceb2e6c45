/** Bounds of serial consoles, and of shells in guests; a part of `limits`. */
export const consoleLimits = {
  /** Console output kept for each VM. */
  consoleHistoryBytes: 256 * 1024,
  /** A history that was not used for so long is no longer in the memory of the daemon; its file keeps it. */
  consoleQuietMs: 1000,
  /**
   * One read of a pty master: at most what the kernel has at a time (N_TTY_BUF_SIZE less one). After a filled buffer,
   * libuv continues reading in the same turn. So heavy output costs its listeners only one turn in ten.
   */
  consoleReadBytes: 4095,
  /** Viewers of one VM, in each of the two modes. */
  consoleViewersMax: 16,
  /** Viewers of one VM that belong to clients that are not controllers, in each mode; the rest is for these. */
  consoleViewersOthersMax: 12,
  /** Output on its way to a viewer that does not read; above it, the viewer is disconnected. */
  consoleViewerBehindBytesMax: 1024 * 1024,
  /** Output of a shell on its way to its viewer. Above the first the guest waits until less than the second is left. */
  consoleShellAheadBytesMax: 256 * 1024,
  consoleShellResumeBytes: 128 * 1024,
  /** Size of one message of a viewer. */
  consoleMessageBytesMax: 64 * 1024,
  /**
   * Size of a text message of a viewer. A valid one has less than 100 characters, and one of 64 KiB takes 2 ms to read.
   */
  consoleTextCharactersMax: 1024,
  /** Messages of a viewer: far more than a fast paste or a resized window produces. */
  consoleMessagesPerSecond: 1000,
  consoleMessagesBurst: 2000,
  consoleColsMax: 1000,
  consoleRowsMax: 1000,
  /** Input that the guest has not read; above it, viewers are not read either. */
  consoleInputBytesMax: 256 * 1024,
  /**
   * Input that is kept at most. One message of each viewer comes after the limit;
   * more is from viewers that come and go.
   */
  consoleInputKeptBytesMax: 2 * 1024 * 1024,
  /** Delay between two attempts to write input that a terminal did not accept. */
  consoleInputRetryMsMin: 2,
  consoleInputRetryMsMax: 100,
  /** Waiting input that one turn of the event loop writes to one terminal. A terminal accepts about 12 KiB. */
  consoleInputTurnBytesMax: 64 * 1024,
  /** Bytes read at most from a console whose VM is gone; a pty holds far less. */
  consoleRestBytesMax: 1024 * 1024,
  /** Bytes moved for one console: its output, and again for each viewer. Above it, the guest waits. */
  consoleMovedBytesPerSecond: 64 * 1024 * 1024,
  consoleMovedBurstBytes: 1024 * 1024,
  /** Bytes moved for all consoles together: a third of a core, however many guests are noisy. */
  consolesMovedBytesPerSecond: 128 * 1024 * 1024,
  /** A viewer that has not answered a ping by the next one is gone. */
  consolePingMs: 20_000,
  /** Input read from a held-back viewer, to see whether it answers pings; above it, it is not pinged. */
  consoleHeldInputBytesMax: 256 * 1024,
  /** A viewer that does not answer a close within this time is disconnected. */
  consoleCloseMs: 2000,
  /** How long the last output of a VM or a shell may take to reach a slow viewer before the close is sent. */
  consoleLastOutputMs: 30_000,

  /** SSH into a guest: from the first packet to the shell. A guest that wakes or boots answers within this time. */
  sshConnectMs: 15_000,
  /** For a sleeping guest: the time to wake, before `sshConnectMs` begins. */
  sshWakeMs: 30_000,
  /** Detects a guest that vanished: after two unanswered messages the session ends. */
  sshKeepaliveMs: 15_000,
  /** A guest must take as much in one packet of a shell. Programs take 32 KiB and more. */
  sshPacketBytesMin: 1024,
  /**
   * How often a guest may exchange keys again, and how many times at once. Servers do so by volume or time: OpenSSH
   * after 1 GiB or more (ssh_config(5), RekeyLimit), which takes 16 s at the speed that a shell is read with.
   */
  sshKeyExchangeEveryMs: 5000,
  sshKeyExchangesBurst: 5,
  /**
   * Bytes kept of one connection, with what its messages cost; each way has its own. Above it, a guest that has a shell
   * waits for its viewer, and one that has none, or does not read what it is sent, is cut off.
   */
  sshKeptBytesMax: 8 * 1024 * 1024,
  /** Cost of a message that is kept, beside its bytes: a buffer for each, of about 600 bytes. */
  sshMessageKeptBytes: 1024,
  /** Cost of a message when it is read, beside its bytes: its 14 us of a processor move about as many bytes. */
  sshMessageMovedBytes: 4096,
  /** How often a guest that waits for its viewer is looked at. */
  sshFullLookMs: 20,
  /** Linux: 32 bytes including the final zero (useradd(8)). */
  sshUserBytesMax: 31,
} as const
