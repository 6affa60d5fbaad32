"""Blind cases told in the learner's own language."""

from __future__ import annotations

import re

import pytest

from course_lib.lab.mysteries import KINDS
from course_lib.teach.diagnoses.judging import is_meant
from course_lib.teach.diagnoses.kinds import KINDS as ENGLISH
from course_lib.teach.diagnoses.known import known

SAID = {
    "stuck": ["랭크 2가 데이터를 기다리다 멈췄습니다", "데이터 로더의 워커가 끝났다", "교착 상태"],
    "skipped": ["한 랭크가 스텝을 하나 건너뛰었다", "랭크 2가 먼저 끝났습니다"],
    "shape": ["all_reduce의 모양이 다르다", "그래디언트가 절반뿐: 크기가 맞지 않음"],
    "hoard": ["메모리 부족", "로짓을 모두 간직해서 메모리가 모자랍니다"],
    "leak": ["메모리 누수", "메모리가 스텝마다 늘어납니다", "그래디언트가 쌓인다"],
    "killed": ["프로세스가 죽었습니다", "강제 종료됨 (신호 9)"],
    "node-dies": ["노드가 통째로 죽었다", "노드 2가 사라졌습니다", "노드 장애"],
    "slow-rank": ["낙오자: 디바이스가 느립니다", "클록이 낮아졌다"],
    "wrong-port": ["틀린 포트로 연결", "포트 번호가 다릅니다"],
    "wrong-master": ["마스터 주소가 틀렸습니다", "자기 자신을 마스터로 여긴다"],
    "bad-name": ["호스트 이름을 찾지 못합니다", "이름에 오타"],
    "port-taken": ["포트가 이미 사용 중입니다", "다른 프로그램이 포트를 쓰고 있다"],
    "bad-sample": ["나쁜 샘플이 NaN을 만들었습니다", "토큰이 없는 시퀀스를 0으로 나눔"],
    "exploding": ["학습률이 너무 높아 발산했습니다", "그래디언트 폭발"],
    "same-data": ["모든 랭크가 같은 데이터를 읽습니다", "샘플러가 랭크를 모른다"],
    "unequal-weights": ["한 랭크의 가중치가 다릅니다", "시드가 달라 다른 가중치로 시작했다"],
    "same-dropout": ["드롭아웃 마스크가 모두 같음", "모든 랭크가 같은 난수를 뽑습니다"],
    "same-order": ["에폭마다 순서가 같습니다", "set_epoch를 잊어 같은 순서로 섞인다"],
    "disk-full": ["디스크가 가득 찼습니다", "남은 공간이 없다"],
    "no-internet": ["인터넷에서 토크나이저를 내려받으려 합니다"],
    "missing-module": ["한 노드에 모듈이 없습니다", "패키지가 설치되지 않음"],
    "old-module": ["한 노드의 모듈이 옛 버전입니다", "낡은 모듈"],
}
CURES = {
    "stuck": "데이터를 읽는 스레드를 살피고 타임아웃을 정한다",
    "skipped": "모든 랭크에 같은 수의 스텝",
    "shape": "모든 랭크에서 같은 파라미터",
    "hoard": "로짓을 간직하지 않는다",
    "leak": "수만 간직한다",
    "killed": "마지막 체크포인트에서 이어 간다",
    "node-dies": "노드를 빼고 다시 시작",
    "slow-rank": "그 노드를 제외한다",
    "wrong-port": "모두에게 한 포트",
    "wrong-master": "첫 노드의 주소",
    "bad-name": "노드가 아는 이름",
    "port-taken": "작업 번호에서 포트를 정한다",
    "bad-sample": "데이터를 거른다",
    "exploding": "학습률을 낮춘다",
    "same-data": "샘플러에 랭크를 준다",
    "unequal-weights": "랭크 0에서 브로드캐스트",
    "same-dropout": "시드에 랭크를 더한다",
    "same-order": "set_epoch를 부른다",
    "disk-full": "자리를 비운다",
    "no-internet": "로그인 노드에서 미리 내려받는다",
    "missing-module": "거기에 설치한다",
    "old-module": "모듈을 업데이트한다",
}


@pytest.fixture(autouse=True)
def spoken_korean(monkeypatch):
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")


def test_every_kind_has_korean_words():
    assert set(SAID) == set(CURES) == set(KINDS)
    for name, kind in known().items():
        assert re.search("[가-힣]", kind.words), name
        assert re.search("[가-힣]", kind.cure), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_cause_and_cure_in_korean_are_taken(kind):
    for said in SAID[kind]:
        assert is_meant(known()[kind], said), said
    assert known()[kind].is_cured_by(CURES[kind])


def test_few_wrong_causes_in_korean_pass_for_another():
    taken = [(kind, said) for other, many in SAID.items() for said in many for kind in KINDS
             if kind != other and is_meant(known()[kind], said)]  # fmt: skip
    assert len(taken) <= 6, taken


def test_english_words_are_taken_by_who_learns_in_korean_too():
    assert is_meant(known()["leak"], "memory leak")


def test_in_english_the_kinds_are_as_they_are_written(monkeypatch):
    monkeypatch.setenv("COURSE_LANGUAGE", "en")
    assert known() == ENGLISH
