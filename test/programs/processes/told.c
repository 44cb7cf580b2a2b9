/* What calls of System V tell of all segments, sets of semaphores and queues: limits, what there
   is, and one by its index. Other processes may have some, too, so that differences are told. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include "saying.h"
#ifndef SHM_STAT_ANY
#define SHM_STAT_ANY 15
#endif

union semun { int val; struct semid_ds *buf; unsigned short *array; struct seminfo *__buf; };
#define MOST(field) printf("%s %d\n", #field, (int)((~0ul - (unsigned long)(field)) >> 12))
#define TELL(field) printf("%s %ld\n", #field, (long)(field))

/* The head of a file of /proc/sysvipc, and of the line of an object the words that are the same on
   Linux: those with an x in `left`. */
static void table(const char *name, int id, const char *left) {
  char path[50], text[400], *word;
  snprintf(path, sizeof path, "/proc/sysvipc/%s", name);
  FILE *file = fopen(path, "r");
  for (int line = 0; file && fgets(text, sizeof text, file); line++) {
    int length = strlen(text), number = -1, at = 0;
    char copy[400];
    strcpy(copy, text);
    sscanf(text, "%*d %d", &number);
    if (line > 0 && number != id) continue;
    /* Three columns of words. */
    printf("%s %d:", name, length + (sizeof(long) == 4 && !strcmp(name, "shm") ? 33 : 0));
    for (word = strtok(copy, " \n"); word; word = strtok(NULL, " \n"), at++)
      if (line == 0 || left[at] == 'x') printf(" %s", word);
    printf("\n");
  }
  if (file) fclose(file);
}
static void setting(const char *name) {
  char path[50], text[100];
  snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
  FILE *file = fopen(path, "r");
  if (!file || !fgets(text, sizeof text, file)) return;
  if (sizeof(long) == 4 && !strcmp(text, "4278190079\n")) strcpy(text, "18446744073692774399\n");
  printf("%s %s", name, text);
  fclose(file);
}

static void memory(void) {
  struct shminfo limits;
  struct shm_info before, after;
  struct shmid_ds status;
  int first = shmctl(0, IPC_INFO, (void *)&limits) >= 0, index = -1;
  TELL(first), MOST(limits.shmmax), MOST(limits.shmall);
  TELL(limits.shmmin), TELL(limits.shmmni), TELL(limits.shmseg);
  shmctl(0, SHM_INFO, (void *)&before);
  int id = shmget(IPC_PRIVATE, 10000, 0600), highest = shmctl(0, SHM_INFO, (void *)&after);
  TELL(after.used_ids - before.used_ids), TELL(after.shm_tot - before.shm_tot);
  TELL(after.shm_swp - before.shm_swp);
  for (int i = 0; i <= highest; i++) if (shmctl(i, SHM_STAT, &status) == id) index = i;
  TELL(index >= 0), TELL(shmctl(index, SHM_STAT, &status) == id);
  TELL(status.shm_segsz), TELL(status.shm_perm.mode);
  TELL(shmctl(index, SHM_STAT_ANY, &status) == id);
  void *place = shmat(id, 0, 0);
  table("shm", id, "x-xx--xxxxx----");
  say(shmctl(id, IPC_RMID, 0));
  table("shm", id, "x-xx--xxxxx----");
  say(shmdt(place));
  table("shm", id, "x-xx--xxxxx----");
  id = shmget(IPC_PRIVATE, 10000, 0600);
  say(shmctl(30000, SHM_STAT, &status));
  say(shmctl(id, SHM_LOCK, 0)); say(shmctl(id, SHM_UNLOCK, 0));
  say(shmctl(id, 77, &status)); say(shmctl(-1, IPC_INFO, (void *)&limits));
  say(shmctl(0, SHM_INFO, (void *)16));
  say(shmctl(id, IPC_RMID, 0));
}

static void semaphores(void) {
  struct seminfo limits, before, after;
  struct semid_ds status;
  int index = -1;
  TELL(semctl(0, 0, IPC_INFO, (union semun){.__buf = &limits}) >= 0);
  TELL(limits.semmni), TELL(limits.semmns), TELL(limits.semmsl);
  TELL(limits.semopm), TELL(limits.semvmx);
  TELL(limits.semusz), TELL(limits.semaem), TELL(limits.semmap);
  TELL(limits.semmnu), TELL(limits.semume);
  semctl(0, 0, SEM_INFO, (union semun){.__buf = &before});
  int id = semget(IPC_PRIVATE, 3, 0600);
  int highest = semctl(0, 0, SEM_INFO, (union semun){.__buf = &after});
  TELL(after.semusz - before.semusz), TELL(after.semaem - before.semaem), TELL(after.semvmx);
  for (int i = 0; i <= highest; i++)
    if (semctl(i, 0, SEM_STAT, (union semun){.buf = &status}) == id) index = i;
  TELL(index >= 0), TELL(semctl(index, 0, SEM_STAT, (union semun){.buf = &status}) == id);
  TELL(status.sem_nsems);
  table("sem", id, "x-xxxxxxx-");
  say(semctl(30000, 0, SEM_STAT, (union semun){.buf = &status}));
  say(semctl(id, 0, 77, (union semun){.buf = &status}));
  say(semctl(id, 0, IPC_RMID));
}

static void queues(void) {
  struct msginfo limits, before, after;
  struct msqid_ds status;
  struct { long type; char text[20]; } message = {1, "nineteen characters"};
  int index = -1;
  TELL(msgctl(0, IPC_INFO, (void *)&limits) >= 0);
  TELL(limits.msgmax), TELL(limits.msgmnb), TELL(limits.msgmni);
  TELL(limits.msgssz), TELL(limits.msgseg);
  TELL(limits.msgpool), TELL(limits.msgmap), TELL(limits.msgtql);
  msgctl(0, MSG_INFO, (void *)&before);
  int id = msgget(IPC_PRIVATE, 0600);
  say(msgsnd(id, &message, 19, 0)); say(msgsnd(id, &message, 5, 0));
  int highest = msgctl(0, MSG_INFO, (void *)&after);
  TELL(after.msgpool - before.msgpool), TELL(after.msgmap - before.msgmap);
  TELL(after.msgtql - before.msgtql);
  for (int i = 0; i <= highest; i++) if (msgctl(i, MSG_STAT, &status) == id) index = i;
  TELL(index >= 0), TELL(msgctl(index, MSG_STAT, &status) == id);
  TELL(status.msg_qnum), TELL(status.msg_qbytes);
  table("msg", id, "x-xxx--xxxx-x-");
  say(msgctl(30000, MSG_STAT, &status)); say(msgctl(id, 77, &status));
  say(msgctl(id, IPC_RMID, 0));
}

/* As many as are told. */
static void many(void) {
  int ids[1200], count = 0;
  for (int i = 0; i < 1200; i++) if ((ids[count] = msgget(IPC_PRIVATE, 0600)) >= 0) count++;
  TELL(count);
  while (count > 0) msgctl(ids[--count], IPC_RMID, 0);
  for (int i = 0; i < 10; i++) if ((ids[count] = semget(IPC_PRIVATE, 32000, 0600)) >= 0) count++;
  TELL(count);
  while (count > 0) semctl(ids[--count], 0, IPC_RMID);
}

int main(void) {
  const char *settings[] = {"shmmax", "shmall", "shmmni", "sem", "msgmax", "msgmnb", "msgmni"};
  for (int i = 0; i < 7; i++) setting(settings[i]);
  memory();
  semaphores();
  queues();
  many();
  return 3;
}
